package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

func withStandby(_ string, o *pipeline.Options) { o.Standby = 1 }

// standbys waits until every partition has n standbys that could take over,
// none of them at its owner, and returns the names of the nodes.
func standbys(t *testing.T, w *sim.World, n int) map[int32][]string {
	t.Helper()
	var at map[int32][]string
	for range 600 {
		at = map[int32][]string{}
		right := true
		for _, node := range w.Nodes() {
			for _, s := range node.Engine.Standbys() {
				if s.Warm && s.Lag == 0 {
					at[s.Partition] = append(at[s.Partition], node.Name)
				}
			}
		}
		for p := range w.P {
			owner := w.Owner(p)
			right = right && owner != nil && len(at[p]) == n
			for _, name := range at[p] {
				right = right && owner != nil && owner.Name != name
			}
		}
		if right {
			return at
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not every partition has %d standbys elsewhere: %v", n, at)
	return nil
}

// TestStandbyTakesOver kills an owner. Its partitions must go to where their
// standbys are, be opened without reading topic state again, fire at once, and
// get other standbys.
func TestStandbyTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 21, Partitions: 9, Change: withStandby})
		for _, name := range []string{"a", "b", "c"} {
			w.Start(name)
		}
		shared(t, w, 3, time.Minute)
		w.Flood(3000, func(i int) (string, time.Time) { return fmt.Sprintf("k%d", i), time.Now().Add(time.Hour) })
		time.Sleep(10 * time.Second)
		at := standbys(t, w, 1)
		var lost []int32
		for p := range w.P {
			if w.Owner(p).Name == "b" {
				lost = append(lost, p)
			}
		}
		before, openings := w.Heard("restored"), w.Heard("openings")
		w.Kill("b")
		w.SetDisk("b", nil)
		time.Sleep(20 * time.Second)
		shared(t, w, 2, time.Minute)
		for _, p := range lost {
			if owner := w.Owner(p).Name; owner != at[p][0] {
				t.Errorf("partition %d went to %s, its standby was %s", p, owner, at[p][0])
			}
		}
		if n := w.Heard("openings") - openings; n != len(lost) {
			t.Errorf("%d openings for %d partitions that lost their owner", n, len(lost))
		}
		if n := w.Heard("restored") - before; n > 20*len(lost) {
			t.Errorf("%d records were read to open %d partitions that had standbys", n, len(lost))
		}
		standbys(t, w, 1)
		w.Start("b") // takes a third back; its disk is empty
		shared(t, w, 3, time.Minute)
		standbys(t, w, 1)
		time.Sleep(time.Hour)
		w.CheckInvariants()
	})
}

// TestStandbyFailpoints strikes owners at every step of the turn while others
// keep standbys: what takes over must be as right as a restore.
func TestStandbyFailpoints(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, step := range steps {
		for _, blow := range blows[:3] { // hung and cut: TestFailpoints, TestChaos
			t.Run(step.name+"/"+blow.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := sim.New(t, sim.Options{Seed: seed, Partitions: 3, Change: withStandby})
					w.Start("c")
					f := strikeAt(w, step.name, func(n *sim.Node) { blow.hit(w, n) })
					storm(w)
					if f.hits == 0 {
						t.Errorf("the failpoint was never hit")
					}
				})
			})
		}
	}
}

// TestStandbyNeverStale keeps a standby that cannot read topic state for longer
// than tombstones are kept, while its clock is hours behind. What was cancelled
// meanwhile, and compacted away, must not fire.
func TestStandbyNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := time.Duration(0)
		w := sim.New(t, sim.Options{
			Seed: 22, Partitions: 2, Tombstones: time.Hour,
			Change: func(name string, o *pipeline.Options) {
				o.Standby = 1
				o.Machine.Horizon, o.MaxAway = 10*time.Minute, 30*time.Minute
				if name == "b" {
					o.Now, o.MaxClockOffset = func() time.Time { return time.Now().Add(-behind) }, 24*time.Hour
				}
			},
		})
		w.Start("a")
		w.Start("b")
		shared(t, w, 2, time.Minute)
		for i := range 40 {
			w.Register(fmt.Sprintf("l%d", i), time.Now().Add(20*time.Hour))
		}
		standbys(t, w, 1)
		_ = w.Stop("b")
		for i := range 20 {
			time.Sleep(time.Second)
			w.Cancel(fmt.Sprintf("l%d", i))
		}
		time.Sleep(5 * time.Hour)
		w.Register("fresh", time.Now().Add(time.Second))
		time.Sleep(10 * time.Second)
		_ = w.Stop("a")
		for range 3 {
			w.CompactState()
			time.Sleep(2 * time.Hour)
		}
		w.Start("a")
		w.AwaitOwners()
		behind = 11 * time.Hour
		w.Start("b") // its standbys are from before
		time.Sleep(30 * time.Second)
		shared(t, w, 2, time.Minute)
		w.Kill("a")
		time.Sleep(20 * time.Second)
		w.AwaitOwners()
		for p := range w.P {
			n := w.Owner(p)
			err := n.Engine.Scan(t.Context(), p, true, "", func(s *trigger.State) bool {
				if n, _ := strconv.Atoi(string(s.Key[1:])); s.Key[0] == 'l' && n < 20 && s.Status == trigger.Pending {
					t.Errorf("%s is pending again", s.Key)
				}
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
