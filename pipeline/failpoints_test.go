package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// steps are the named steps of a turn; open says that a transaction is under
// way there.
var steps = []struct {
	name string
	open bool
}{
	{"poll", false}, {"begin", false}, {"apply", true}, {"advance", true}, {"emit", true},
	{"flush", true}, {"end", true}, {"committed", false}, {"stored", false},
}

// blows are what hits a node at a step. Each returns when the node has been
// dealt with as far as its own goroutine goes.
var blows = []struct {
	name string
	hit  func(w *sim.World, n *sim.Node)
}{
	{"kill -9", func(w *sim.World, n *sim.Node) {
		w.Kill(n.Name)
		time.AfterFunc(time.Second, func() { w.Start(n.Name) })
	}},
	{"power loss", func(w *sim.World, n *sim.Node) {
		w.PowerLoss(n.Name)
		time.AfterFunc(time.Second, func() { w.Start(n.Name) })
	}},
	{"frozen", func(_ *sim.World, n *sim.Node) { n.Freeze(); time.AfterFunc(25*time.Second, n.Thaw) }}, // past session (6 s) and transaction (10 s) time-outs
	{"hung", func(_ *sim.World, n *sim.Node) { n.Hang(); time.AfterFunc(25*time.Second, n.Heal) }},
	{"cut", func(_ *sim.World, n *sim.Node) { n.Cut() }},
}

// TestFailpoints strikes at every step of the turn with every blow, while two
// nodes register, cancel and fire. The turn struck is a random one that fires.
func TestFailpoints(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, step := range steps {
		for _, blow := range blows {
			t.Run(step.name+"/"+blow.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := sim.New(t, sim.Options{Seed: seed})
					f := strikeAt(w, step.name, 3+w.Rand.IntN(12), func(n *sim.Node) { blow.hit(w, n) })
					storm(w)
					if f.hits == 0 {
						t.Errorf("the failpoint was never hit")
					}
					if step.open && f.inside == 0 {
						t.Errorf("the failpoint was never hit inside an open transaction")
					}
				})
			})
		}
	}
}

// failpoint counts the passes of a step and strikes once.
type failpoint struct {
	mu     sync.Mutex
	begun  map[string]bool // partitions with a transaction under way
	passes int
	hits   int
	inside int // of hits: inside a transaction
}

func strikeAt(w *sim.World, step string, pass int, blow func(*sim.Node)) *failpoint {
	f := &failpoint{begun: map[string]bool{}}
	w.OnStep(func(node string, partition int32, at string) {
		if f.reached(fmt.Sprint(node, partition), step, at, pass) {
			if n := w.Node(node); n != nil {
				blow(n)
			}
		}
	})
	return f
}

func (f *failpoint) reached(who, step, at string, pass int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch at {
	case "apply":
		f.begun[who] = true
	case "poll", "committed":
		f.begun[who] = false
	}
	if at != step {
		return false
	}
	if f.passes++; f.passes != pass {
		return false
	}
	f.hits++
	if f.begun[who] {
		f.inside++
	}
	return true
}

// storm registers, cancels and fires on two nodes for a while, lets the world
// come to rest, and judges.
func storm(w *sim.World) {
	w.T.Helper()
	w.Start("a")
	w.Start("b")
	w.AwaitOwners()
	for i := range 40 {
		at := time.Now().Add(time.Duration(w.Rand.IntN(8000)) * time.Millisecond)
		w.Register(fmt.Sprintf("t%d", i), at)
		if i%4 == 0 {
			w.Register(fmt.Sprintf("c%d", i), at.Add(10*time.Second))
			time.Sleep(time.Duration(w.Rand.IntN(1000)) * time.Millisecond)
			w.Cancel(fmt.Sprintf("c%d", i))
		}
		time.Sleep(time.Duration(w.Rand.IntN(300)) * time.Millisecond)
	}
	rest(w)
}

// rest waits until every fault is over and everything is due, then judges.
func rest(w *sim.World) {
	w.T.Helper()
	time.Sleep(time.Minute)
	w.AwaitOwners()
	time.Sleep(20 * time.Second)
	w.CheckInvariants()
}
