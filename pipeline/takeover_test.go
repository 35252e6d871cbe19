package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestDeathInsideARebalance kills a member at its join and at its sync: the
// rest must not wait for it longer than the rebalance and session time-outs.
func TestDeathInsideARebalance(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup} {
		t.Run(key.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 31, Partitions: 6})
				w.Start("a")
				w.Start("b")
				shared(t, w, 2, time.Minute)
				for i := range 100 {
					w.Register(fmt.Sprintf("k%d", i), time.Now().
						Add(time.Duration(w.Rand.IntN(40_000))*time.Millisecond))
				}
				struck, once := make(chan struct{}), sync.Once{}
				w.Cluster.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
					if instanceOf(r) != "b" {
						w.Cluster.KeepControl()
						return nil, nil, false
					}
					once.Do(func() { w.Kill("b"); close(struck) })
					return nil, nil, false
				})
				w.Start("c") // makes the others join again
				select {
				case <-struck:
				case <-time.After(time.Minute):
					t.Fatal("b did not die inside a rebalance")
				}
				time.Sleep(14 * time.Second) // rebalance (5 s) and session (6 s) time-outs
				shared(t, w, 2, time.Second)
				w.Start("b")
				rest(w)
			})
		})
	}
}

func instanceOf(r kmsg.Request) string {
	id := (*string)(nil)
	switch r := r.(type) {
	case *kmsg.JoinGroupRequest:
		id = r.InstanceID
	case *kmsg.SyncGroupRequest:
		id = r.InstanceID
	}
	if id == nil {
		return ""
	}
	return *id
}

// TestNobodyPingPongs: after a node was frozen and its partitions have moved,
// owners do not take turns at fencing each other; and partitions that nobody
// had to move have the same owner all the while.
func TestNobodyPingPongs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 32, Partitions: 6})
		for _, name := range []string{"a", "b", "c"} {
			w.Start(name)
		}
		shared(t, w, 3, time.Minute)
		time.Sleep(10 * time.Second)
		before, owner := terms(w), map[int32]string{}
		for p := range w.P {
			owner[p] = w.Owner(p).Name
		}
		w.Node("b").Freeze()
		time.Sleep(25 * time.Second)
		w.Node("b").Thaw()
		time.Sleep(time.Minute)
		shared(t, w, 3, time.Second)
		for p, term := range terms(w) {
			moves := term - before[p]
			switch { // away from b, and two of the six back
			case owner[p] == "b" && moves > 3:
				t.Errorf("partition %d of the frozen node was opened %d times", p, moves)
			case owner[p] != "b" && moves > 1:
				t.Errorf("partition %d of %s was opened %d times", p, owner[p], moves)
			}
		}
		rest(w)
	})
}

// terms are how often each partition was opened.
func terms(w *sim.World) map[int32]int64 {
	out := map[int32]int64{}
	for _, n := range w.Nodes() {
		for _, s := range n.Engine.Partitions() {
			out[s.Partition] = max(out[s.Partition], s.Term)
		}
	}
	return out
}

// TestStormWhileRestoring joins and leaves nodes every few seconds while
// thousands of triggers are pending and stores have to be filled: what has an
// owner fires on time, and a restore that is broken off goes on where it was.
func TestStormWhileRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 33, Partitions: 4, Change: withStandby})
		w.Start("a")
		w.AwaitOwners()
		w.Flood(20_000, func(i int) (string, time.Time) { return fmt.Sprintf("k%d", i), time.Now().Add(2 * time.Hour) })
		time.Sleep(20 * time.Second)
		for i := range 12 {
			name := string(rune('b' + i%3))
			if w.Node(name) == nil {
				w.SetDisk(name, nil)
				w.Start(name)
			} else if i%2 == 0 {
				w.Kill(name)
			} else {
				_ = w.Stop(name)
			}
			w.Register(fmt.Sprintf("s%d", i), time.Now().Add(time.Second))
			time.Sleep(time.Duration(1+w.Rand.IntN(9)) * time.Second)
		}
		time.Sleep(2 * time.Hour)
		rest(w)
	})
}

// TestHang blocks a partition inside a turn, as a disk that does not answer
// would. The engine must end with an error that names partition and step, and
// another node take over.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 34, Change: func(_ string,
			o *pipeline.Options,
		) {
			o.HangAfter = 20 * time.Second
		}})
		var once sync.Once
		stuck := make(chan struct{})
		w.OnStep(func(node string, partition int32, step string) {
			if node == "a" && step == "committed" && w.Node("b") != nil {
				once.Do(func() { <-stuck })
			}
		})
		a := w.Start("a")
		w.AwaitOwners()
		w.Start("b")
		time.Sleep(20 * time.Second)
		for i := range 8 {
			w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Minute))
		}
		err := a.Wait()
		if err == nil || !strings.Contains(err.Error(), "committed") || !strings.Contains(err.Error(), "partition") {
			t.Errorf("the engine said %v", err)
		}
		time.Sleep(20 * time.Second)
		for p := range w.P {
			var at error
			for _, s := range w.Node("b").Engine.Partitions() {
				if s.Partition == p && !s.Ready {
					at = errors.New(s.Doing)
				}
			}
			if at != nil {
				t.Errorf("partition %d does not fire at b: %v", p, at)
			}
		}
		time.Sleep(time.Minute)
		close(stuck)
		w.Kill("a")
		w.CheckInvariants()
	})
}
