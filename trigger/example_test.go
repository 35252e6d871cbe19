package trigger_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// A trigger is registered, falls due, and fires. The machine has no clock: the
// caller brings the time.
func ExampleMachine_Apply() {
	m := trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel:   func(string) trigger.Channel { return trigger.Channel{Topic: "waterclock.due.default"} },
	}
	now := trigger.At(time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC))
	out := m.Apply(nil, &trigger.Command{
		Op: trigger.OpRegister, Key: "tea", From: trigger.Origin{Append: now},
		Spec: &trigger.Spec{
			Channel: "default", Priority: trigger.Normal,
			When: trigger.When{Kind: trigger.WhenDelay, Delay: 7 * time.Minute},
		},
	}, now)
	fmt.Println(out.Facts[0].Type, out.State.Status, time.UnixMilli(int64(out.State.Next())).UTC().Format(time.RFC3339))

	timer := out.State.Timers(nil)[0]
	out = m.Due(out.State, timer, timer.Due)
	fmt.Println(out.Facts[0].Type, out.State.Status, out.Fires[0].ID())
	// Output:
	// trigger.registered PENDING 2026-11-20T14:07:00Z
	// occurrence.fired FIRED tea@2026-11-20T14:07:00.000Z#0
}

// A key is an id, with its tenant in front unless that is the default one.
func ExampleParseKey() {
	key, err := trigger.ParseKey([]byte("acme/invoice-9"))
	fmt.Println(key.Tenant(), key.ID(), err)
	_, err = trigger.ParseKey([]byte("/x"))
	fmt.Println(err != nil)
	// Output:
	// acme invoice-9 <nil>
	// true
}
