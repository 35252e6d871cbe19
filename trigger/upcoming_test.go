package trigger

import (
	"slices"
	"testing"
	"time"
)

// What was skipped takes no place in the list of what will fire: n is how many
// are listed, as long as the rule has as many.
func TestUpcomingIsFullAfterSkips(t *testing.T) {
	for _, c := range []struct {
		name string
		when When
		want int // of 30
	}{
		{"without end", When{Kind: WhenRecurrence, Recurrence: "every:1h"}, 30},
		{"ends", When{Kind: WhenRecurrence, Recurrence: "every:1h", Count: 12}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, instant("2026-03-02T09:00:00Z"))
			w.command(&Command{
				Op: OpRegister, Key: "k", From: w.origin(),
				Spec: &Spec{When: c.when, Channel: "default"},
			})
			for _, o := range []string{
				"2026-03-02T11:00:00Z", "2026-03-02T12:00:00Z", "2026-03-02T13:00:00Z",
				"2026-03-02T15:00:00Z",
			} {
				if out := w.command(&Command{
					Op: OpSkip, Key: "k", From: w.origin(),
					Occurrence: o,
				}); out.Rejected != nil {
					t.Fatal(out.Rejected)
				}
			}
			all := w.machine.Timetable.Upcoming(w.states["k"], 30, 0)
			if len(all) != c.want {
				t.Errorf("of 30 there are %d, want %d", len(all), c.want)
			}
			for n := range all {
				if got := w.machine.Timetable.Upcoming(w.states["k"], n, 0); !slices.Equal(got, all[:n]) {
					t.Errorf("n=%d lists %d", n, len(got))
				}
			}
			var fired []Instant
			w.observe = func(_ Instant, _ *State, out Outcome) {
				for i := range out.Fires {
					fired = append(fired, out.Fires[i].Nominal)
				}
			}
			w.advance(w.now.Add(10 * time.Hour))
			for i, at := range fired {
				if all[i].Nominal != at {
					t.Errorf("number %d is listed for %v and fired for %v", i, all[i].Nominal, at)
				}
			}
		})
	}
}
