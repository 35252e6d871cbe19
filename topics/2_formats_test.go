package topics

import (
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// A state is written in the oldest format that holds it.
func TestFormatOf(t *testing.T) {
	raw := &trigger.Spec{Callback: &trigger.Callback{Raw: true}}
	for name, c := range map[string]struct {
		state trigger.State
		want  Format
	}{
		"nothing new":       {trigger.State{Live: []trigger.Live{{Attempt: 3}}}, Oldest},
		"plain callback":    {trigger.State{Spec: trigger.Spec{Callback: &trigger.Callback{URL: "u"}}}, Oldest},
		"postponed":         {trigger.State{Live: []trigger.Live{{}, {Postponed: 1}}}, Redrives},
		"redriven, live":    {trigger.State{Live: []trigger.Live{{AttemptsBefore: 1}}}, Redrives},
		"redriven":          {trigger.State{Redriven: []trigger.Redrive{{Attempt: 1}}}, Redrives},
		"raw":               {trigger.State{Spec: *raw}, Redrives},
		"raw when it fired": {trigger.State{Live: []trigger.Live{{Was: raw}}}, Redrives},
		"recheck":           {trigger.State{Spec: trigger.Spec{Callback: &trigger.Callback{Recheck: true}}}, Redrives},
	} {
		if got := FormatOf(&c.state); got != c.want {
			t.Errorf("%s: format %d, want %d", name, got, c.want)
		}
		b, err := AppendStateAs(nil, &c.state, FormatOf(&c.state))
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeState("k", b)
		if err != nil || len(back.Redriven) != len(c.state.Redriven) || len(back.Live) != len(c.state.Live) {
			t.Errorf("%s: came back as %+v, %v", name, back, err)
		}
	}
}
