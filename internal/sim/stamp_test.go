package sim_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/trigger"
)

// TestCancelForwardedLate has a cancel on a wrong partition that is read in time, but the right
// partition accepts nothing until the trigger has fired. The copy has the time of its append
// there, not the time at which the forwarder read the original. So the cancel was too late, and
// an event must report that.
func TestCancelForwardedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.Start("b")
		w.AwaitOwners()
		const key = "k"
		home := w.Home(key)
		due := time.Now().Add(10 * time.Second)
		w.Register(key, due)
		time.Sleep(3 * time.Second)
		refuses := w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Commands(), Err: kerr.NotLeaderForPartition, Count: -1,
			When: func(req kmsg.Request) bool {
				for _, topic := range req.(*kmsg.ProduceRequest).Topics {
					for _, p := range topic.Partitions {
						if p.Partition == home {
							return true
						}
					}
				}
				return false
			},
		})
		w.CancelOn((home+1)%w.P, key)
		time.Sleep(time.Until(due.Add(4 * time.Second)))
		w.RequireDelivered(key, 1)
		refuses.Remove()
		time.Sleep(30 * time.Second)
		if refuses.Hits() == 0 {
			t.Error("nothing was refused: the test shows nothing")
		}
		w.CheckInvariants()
		copies := 0
		for _, r := range w.Dump(w.Names.Commands()) {
			if r.Partition == home && string(r.Value) == `{"op":"cancel"}` {
				copies++
				if r.Timestamp.Before(due) {
					t.Errorf("the copy has the time %v before the trigger was due: it was appended after",
						due.Sub(r.Timestamp))
				}
			}
		}
		if copies != 1 {
			t.Errorf("%d copies of the cancel", copies)
		}
		late := 0
		for _, e := range w.Dump(w.Names.Events()) {
			if string(e.Key) == key && strings.Contains(string(e.Value), string(trigger.CancelTooLate)) {
				late++
			}
		}
		if late != 1 {
			t.Errorf("%d events say that the cancel came too late", late)
		}
	})
}
