package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestFiresInTheTurnThatDecides: where triggers are due at once, one after the other, the turn that
// decides one also fires it, and writes its state once. The first is not expected and takes two
// turns, and so does the first after one that is due later.
func TestFiresInTheTurnThatDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		want := map[string]int{"t0": 2, "t1": 1, "t2": 1, "later": 1, "t3": 2, "t4": 1}
		for _, id := range []string{"t0", "t1", "t2", "later", "t3", "t4"} {
			due := time.Now()
			if id == "later" {
				due = due.Add(time.Hour)
			}
			w.Register(id, due)
			time.Sleep(time.Second)
		}
		written, last := map[string]int{}, map[string]trigger.Status{}
		for _, r := range w.Dump(w.Names.State()) {
			if want[string(r.Key)] == 0 {
				continue
			}
			s, err := topics.DecodeState(trigger.Key(r.Key), r.Value)
			if err != nil {
				t.Fatal(err)
			}
			written[string(r.Key)]++
			last[string(r.Key)] = s.Status
		}
		for id, n := range want {
			if written[id] != n {
				t.Errorf("the state of %s was written %d times, want %d", id, written[id], n)
			}
			if fired := last[id] != trigger.Pending; fired != (id != "later") {
				t.Errorf("%s is %s", id, last[id])
			}
		}
		time.Sleep(2 * time.Hour)
		w.CheckInvariants()
	})
}
