package pipeline

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// What was skipped stays in the state until the series is two days past it. Many
// thousand skips are refused before the state outgrows its topic: a record that the
// broker does not take fails every turn.
func TestSkipsFitTheState(t *testing.T) {
	const topic, takes = "waterclock.state", 100_000
	takesOf := sizes{state: topic, used: map[string]int{topic: takes}}
	m := trigger.Machine{
		Horizon: time.Hour, MisfireAfter: time.Minute,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel:   func(string) trigger.Channel { return trigger.Channel{} },
	}
	at := trigger.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	from := func(n int) trigger.Origin { return trigger.Origin{Offset: int64(n), Append: at} }
	spec := &trigger.Spec{
		Channel: "default", Priority: trigger.Normal, Payload: make([]byte, 12_000),
		When: trigger.When{Kind: trigger.WhenRecurrence, Recurrence: "every:1m", Start: "2026-01-01T00:01:00.000Z"},
	}
	out := m.Apply(nil, &trigger.Command{Op: trigger.OpRegister, Key: "k", Spec: spec, From: from(0)}, at)
	if out.Rejected != nil {
		t.Fatal(out.Rejected)
	}
	s := out.State
	for n := 1; n < 4200; n++ {
		cmd := &trigger.Command{Op: trigger.OpSkip, Key: "k", From: from(n)}
		if n%900 != 0 { // the next one moves the plan on
			cmd.Occurrence = at.Add(time.Duration(n+1) * time.Minute).String()
		}
		out = m.Apply(s, cmd, at)
		if out.Rejected != nil {
			t.Fatal(n, out.Rejected)
		}
		if err := takesOf.tooLarge(&out); err != nil {
			if n < 1000 {
				t.Errorf("the skip number %d is refused: %v", n, err)
			}
			return
		}
		s = out.State
		b, err := topics.AppendState(nil, s)
		if size := topics.RecordBytes([]byte("k"), b, nil); err != nil || size > takes {
			t.Fatalf("%d skips take %d bytes, the topic takes %d: %v", len(s.Series.Skip), size, takes, err)
		}
	}
	t.Error("nothing was refused")
}
