package topics

import (
	"slices"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// A state is written in the oldest format that holds it.
func TestFormatOf(t *testing.T) {
	raw, recheck := &trigger.Spec{Callback: &trigger.Callback{Raw: true}}, &trigger.Spec{
		Callback: &trigger.Callback{Recheck: true},
	}
	steps := &trigger.Spec{Escalation: []trigger.Step{{Channel: "push"}}}
	decided := []trigger.NameStep{{Day: 1}}
	for name, c := range map[string]struct {
		state trigger.State
		want  Format
	}{
		"escalation":        {trigger.State{Spec: *steps}, Deliveries},
		"nothing new":       {trigger.State{Live: []trigger.Live{{Attempt: 3}}}, Oldest},
		"plain callback":    {trigger.State{Spec: trigger.Spec{Callback: &trigger.Callback{URL: "u"}}}, Oldest},
		"postponed":         {trigger.State{Live: []trigger.Live{{}, {Postponed: 1}}}, Deliveries},
		"redriven, live":    {trigger.State{Live: []trigger.Live{{AttemptsBeforeRedrive: 1}}}, Deliveries},
		"redriven":          {trigger.State{Redriven: []trigger.Redrive{{Attempt: 1}}}, Deliveries},
		"raw":               {trigger.State{Spec: *raw}, Deliveries},
		"raw when it fired": {trigger.State{Live: []trigger.Live{{Was: raw}}}, Deliveries},
		"first fired":       {trigger.State{Live: []trigger.Live{{FirstFired: 1}}}, Deliveries},
		"note of a run":     {trigger.State{Live: []trigger.Live{{Note: "n"}}}, RunNotes},
		"decided names":     {trigger.State{Series: trigger.Series{Decided: decided}}, DecidedNames},
		"begun":             {trigger.State{Series: trigger.Series{Begun: decided}}, DecidedNames},
		"erased before":     {trigger.State{Erasure: trigger.Erasure{Revision: 1}}, Erasures},
		"recheck":           {trigger.State{Spec: *recheck}, Deliveries},
	} {
		if got := FormatOf(&c.state); got != c.want {
			t.Errorf("%s: format %d, want %d", name, got, c.want)
		}
		b, err := AppendStateAs(nil, &c.state, FormatOf(&c.state))
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeState("k", b)
		if err != nil || len(back.Redriven) != len(c.state.Redriven) || len(back.Live) != len(c.state.Live) ||
			len(back.Live) == 1 && back.Live[0].Note != c.state.Live[0].Note ||
			back.Erasure != c.state.Erasure || !slices.Equal(back.Series.Decided, c.state.Series.Decided) ||
			!slices.Equal(back.Series.Begun, c.state.Series.Begun) {
			t.Errorf("%s: came back as %+v, %v", name, back, err)
		}
	}
}
