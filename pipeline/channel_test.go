package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestNewChannel: the first fires of a channel are due on all partitions of two
// nodes at one instant. One of them creates its topic; none of the others may
// take that for a refusal and wait.
func TestNewChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 64
		w := sim.New(t, sim.Options{Partitions: 8})
		w.Start("a")
		w.Start("b")
		w.AwaitOwners()
		due := time.Now().Add(5 * time.Second).Truncate(time.Millisecond)
		for i := range n {
			key := fmt.Sprintf("k%d", i)
			w.Send(key, fmt.Sprintf(`{"op":"register","channel":"fresh","fire_at":%q}`,
				due.UTC().Format(time.RFC3339Nano)))
		}
		time.Sleep(time.Minute)
		fired := w.Dump(w.Names.Due("fresh"))
		if len(fired) != n {
			t.Errorf("%d of %d fired", len(fired), n)
		}
		for _, r := range fired {
			if late := r.Timestamp.Sub(due); late > 500*time.Millisecond {
				t.Errorf("%s fired %v late", r.Key, late)
			}
		}
	})
}
