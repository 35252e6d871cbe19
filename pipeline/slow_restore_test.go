package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestSlowRestore reads topic state from a broker that answers late, for longer
// than it keeps tombstones (docs/testing.md F18): what was read as pending at the
// beginning is cancelled further on, and compaction takes the cancel and its
// tombstone away before they are reached. Such a reading must not be used, by
// an owner or by a standby; once the broker is fast again it is done anew, what
// was cancelled stays so, and all else fires.
func TestSlowRestore(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(w *sim.World) // b reads, slowly
		end   func(w *sim.World) // b opens the partition with what it has read
	}{
		{"owner", func(w *sim.World) { _ = w.Stop("a"); w.Start("b") }, func(*sim.World) {}},
		{"standby", func(w *sim.World) { w.Start("b") }, func(w *sim.World) { w.Kill("a") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				var slow late
				w := sim.New(t, sim.Options{
					Seed: seed, Partitions: 1, Tombstones: time.Hour,
					Change: func(name string, o *pipeline.Options) {
						o.Machine.Horizon, o.MaxAway, o.Heartbeat = 10*time.Minute, 30*time.Minute, 10*time.Minute
						if c.name == "standby" {
							o.Standby = 1
						}
						if name == "b" {
							o.Kafka = append(o.Kafka, slow.options()...)
						}
					},
				})
				w.Start("a")
				w.AwaitOwners()
				due := time.Now().Add(8 * time.Hour)
				w.Flood(20, func(i int) (string, time.Time) { return fmt.Sprintf("gone%d", i), due })
				for i := range 200 { // a turn each: what the slow reading has to get through
					w.Register(fmt.Sprintf("stays%d", i), due)
					time.Sleep(time.Second)
				}
				for i := range 20 {
					w.Cancel(fmt.Sprintf("gone%d", i))
				}
				time.Sleep(15 * time.Minute) // past the horizon: they are forgotten
				if r := newestOf(w, "gone"); len(r) != 20 ||
					slices.ContainsFunc(r, func(r *kgo.Record) bool { return r.Value != nil }) {
					t.Fatalf("of what was cancelled topic state holds %d, not 20 tombstones", len(r))
				}

				slow.by.Store(int64(15 * time.Second))
				c.begin(w)
				time.Sleep(5 * time.Minute)
				w.CompactState() // what was pending goes, the tombstones stay
				time.Sleep(time.Hour)
				w.CompactState()
				if r := newestOf(w, "gone"); len(r) > 0 {
					t.Fatalf("%d tombstones are still there: this shows nothing", len(r))
				}
				time.Sleep(3 * time.Hour)
				slow.by.Store(0)
				time.Sleep(time.Minute)
				c.end(w)
				w.AwaitOwners()
				time.Sleep(time.Until(due) + time.Minute)
				w.CheckInvariants()
			})
		})
	}
}

// TestStandbyWithAClockAhead: a reading that has just begun is not slow, however
// far ahead the clock of its node is.
func TestStandbyWithAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{
			Partitions: 2, Tombstones: time.Hour,
			Change: func(name string, o *pipeline.Options) {
				o.Standby, o.MaxAway = 1, 30*time.Minute
				if name == "b" {
					o.Now = func() time.Time { return time.Now().Add(30 * time.Hour) }
					o.MaxClockOffset = 100 * time.Hour
				}
			},
		})
		w.Epsilon = time.Second
		w.Start("a")
		w.AwaitOwners()
		w.Flood(100, func(i int) (string, time.Time) { return fmt.Sprint("k", i), time.Now().Add(2 * time.Minute) })
		w.Start("b")
		shared(t, w, 2, time.Minute)
		standbys(t, w, 1)
		time.Sleep(3 * time.Minute)
		w.CheckInvariants()
	})
}

// late is a client for whom every answer to a fetch takes so long, and brings
// one batch.
type late struct {
	by atomic.Int64
}

func (l *late) options() []kgo.Opt {
	return []kgo.Opt{kgo.WithHooks(l), kgo.FetchMaxBytes(1), kgo.FetchMaxPartitionBytes(1)}
}

// OnBrokerRead is called before an answer is looked at.
func (l *late) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if kmsg.Key(key) == kmsg.Fetch {
		time.Sleep(time.Duration(l.by.Load()))
	}
}

// newestOf is the newest record of each key on topic state that begins so.
func newestOf(w *sim.World, prefix string) (out []*kgo.Record) {
	newest := map[string]*kgo.Record{}
	for _, r := range w.Dump(w.Names.State()) {
		if strings.HasPrefix(string(r.Key), prefix) {
			newest[string(r.Key)] = r
		}
	}
	for _, r := range newest {
		out = append(out, r)
	}
	return out
}
