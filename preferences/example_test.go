package preferences_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/preferences"
)

// Nothing is sent during quiet hours, except what has priority high.
func ExamplePreferences_Decide() {
	zones := calendar.Embedded()
	p, err := preferences.Decode([]byte(`{
		"timezone":"Europe/Berlin","quiet_hours":{"from":"22:00","to":"07:00"},"opted_out_channels":["sms"]
	}`), zones)
	if err != nil {
		fmt.Println(err)
		return
	}
	night := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	for _, due := range []preferences.Due{{Channel: "push"}, {Channel: "push", High: true}, {Channel: "sms"}} {
		d := p.Decide(due, night, zones)
		fmt.Printf("%s, priority high %t: %s %q\n", due.Channel, due.High, d.Outcome, d.Code)
	}
	// Output:
	// push, priority high false: postpone "quiet_hours"
	// push, priority high true: send ""
	// sms, priority high false: suppress "opted_out"
}
