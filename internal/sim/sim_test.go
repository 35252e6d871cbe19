package sim_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// TestDay simulates a day with 5,000 timers, a clean restart, a crash and a power loss.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		w.Flood(5000, func(i int) (string, time.Time) {
			return fmt.Sprintf("t%d", i), begin.Add(time.Duration(w.Rand.Int64N(int64(24 * time.Hour))))
		})
		for i := range 1000 {
			if i%5 == 0 {
				w.Cancel(fmt.Sprintf("t%d", i))
			}
		}
		for _, end := range []func(string){func(n string) { _ = w.Stop(n) }, w.Kill, w.PowerLoss} {
			time.Sleep(6 * time.Hour)
			end("a")
			w.Start("a")
		}
		time.Sleep(6*time.Hour + time.Minute)
		w.CheckInvariants()
	})
}

// TestForwardingGoesOn checks that forwarding from a wrong partition continues after the brokers
// refuse a producer id once.
func TestForwardingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.MaxLate = 20 * time.Second
		w.Start("a")
		w.AwaitOwners()
		w.Register("first", time.Now()) // so the world's own producer has its id
		w.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true})
		for _, key := range []string{"one", "another"} {
			w.RegisterOn(1-topics.Partition([]byte(key), w.P), key, time.Now().Add(10*time.Second))
		}
		time.Sleep(time.Minute)
		w.CheckInvariants()
	})
}

// seeds returns the seeds of a test: the usual number, or WATERCLOCK_TEST_SEEDS; the first is
// WATERCLOCK_TEST_SEED, or 1.
func seeds(usual int) (first uint64, n int) {
	first, n = 1, usual
	if v, err := strconv.ParseUint(os.Getenv("WATERCLOCK_TEST_SEED"), 10, 64); err == nil {
		first, n = v, 1
	}
	if v, err := strconv.Atoi(os.Getenv("WATERCLOCK_TEST_SEEDS")); err == nil {
		n = v
	}
	return first, n
}

func TestChaos(t *testing.T) {
	first, n := seeds(20)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{
					Seed: first + i, Partitions: 3,
					Change: func(_ string, o *pipeline.Options) {
						o.Standby = int((first + i) % 3) // a third of the worlds each with no, one and two standbys
					},
				})
				w.Chaos(3)
				w.CheckInvariants()
			})
		})
	}
}
