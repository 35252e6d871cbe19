package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestCompactedTail ends commands in a hole: while nobody runs, what stands
// there is superseded, cancelled or aborted, and compaction takes it all away
// but the last marker (docs/testing.md F14). The partition must load, get past the
// hole, fire on time what was registered before it, and decide what comes after.
func TestCompactedTail(t *testing.T) {
	for _, c := range []struct {
		name string
		wipe bool // the disk is lost as well
	}{{"on its disk", false}, {"from topic state", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1, Tombstones: time.Hour})
				w.MaxLate = time.Second
				w.Start("a")
				w.AwaitOwners()
				w.Register("z", time.Now().Add(25*time.Hour))
				time.Sleep(5 * time.Second)
				if err := w.Stop("a"); err != nil {
					t.Fatal(err)
				}
				if c.wipe {
					w.SetDisk("a", nil)
				}
				from := len(w.DumpAll(w.Names.Commands()))
				for i := range 20 { // 20 keys: registered, and cancelled by a tombstone
					key := fmt.Appendf(nil, "y%d", i)
					w.Produce(&kgo.Record{
						Topic: w.Names.Commands(), Key: key,
						Value: []byte(`{"op":"register","delay":"1s"}`),
					})
					w.Produce(&kgo.Record{Topic: w.Names.Commands(), Key: key})
				}
				openTransaction(t, w, "foreign", 0, &kgo.Record{
					Key:   []byte("ghost"),
					Value: []byte(`{"op":"register","delay":"1s"}`),
				})(kgo.TryAbort)
				time.Sleep(24*time.Hour + 30*time.Minute)
				w.CompactState()
				if left := len(w.DumpAll(w.Names.Commands())); left > from {
					t.Fatalf("%d records of the tail are still there: this shows nothing", left-from)
				}
				w.Start("a")
				w.AwaitOwners()
				w.Register("after", time.Now().Add(time.Minute))
				time.Sleep(time.Hour)
				w.RequireDelivered("z", 1)
				w.RequireDelivered("after", 1)
				w.CheckInvariants()
			})
		})
	}
}
