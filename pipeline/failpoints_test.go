package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
)

// steps are the named steps of a turn; open says that a transaction is under
// way there.
var steps = []struct {
	name string
	open bool
}{
	{"poll", false},
	{"begin", false},
	{"apply", true},
	{"advance", true},
	{"emit", true},
	{"flush", true},
	{"end", true},
	{"committed", false},
	{"stored", false},
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
	// past session (6 s) and transaction (10 s) time-outs
	{"frozen", func(_ *sim.World, n *sim.Node) { n.Freeze(); time.AfterFunc(25*time.Second, n.Thaw) }},
	{"hung", func(_ *sim.World, n *sim.Node) { n.Hang(); time.AfterFunc(25*time.Second, n.Heal) }},
	{"cut", func(_ *sim.World, n *sim.Node) { n.Cut() }},
}

// TestFailpoints strikes at every step of the turn with every blow, while two
// nodes register, cancel and fire: once early, once in the middle, once late.
func TestFailpoints(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, step := range steps {
		for _, blow := range blows {
			t.Run(step.name+"/"+blow.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := sim.New(t, sim.Options{Seed: seed})
					f := strikeAt(w, step.name, func(n *sim.Node) { blow.hit(w, n) })
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

// failpoint counts the passes of a step and strikes at some of them.
type failpoint struct {
	mu     sync.Mutex
	at     map[int]bool
	begun  map[string]bool // partitions with a transaction under way
	passes int
	hits   int
	inside int // of hits: inside a transaction
}

func strikeAt(w *sim.World, step string, blow func(*sim.Node)) *failpoint {
	f := &failpoint{begun: map[string]bool{}, at: map[int]bool{
		3 + w.Rand.IntN(12): true, 20 + w.Rand.IntN(20): true,
		50 + w.Rand.IntN(40): true,
	}}
	w.OnStep(func(node string, partition int32, at string) {
		if f.reached(fmt.Sprint(node, partition), step, at) {
			if n := w.Node(node); n != nil {
				blow(n)
			}
		}
	})
	return f
}

func (f *failpoint) reached(who, step, at string) bool {
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
	if f.passes++; !f.at[f.passes] {
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

// TestLostAnswers lets requests of the turn be answered wrongly or not at all,
// some of them after they have been carried out: whether a transaction committed is
// then known to the log alone.
func TestLostAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		key  kmsg.Key
		err  *kerr.Error
		cut  bool // the answer is lost with the connection
	}{
		{"end: committed, and timed out", kmsg.EndTxn, kerr.RequestTimedOut, false},
		{"end: refused for a reason unknown", kmsg.EndTxn, kerr.UnknownServerError, false},
		{"end: the coordinator moved", kmsg.EndTxn, kerr.NotCoordinator, false},
		{"end: fenced", kmsg.EndTxn, kerr.InvalidProducerEpoch, false},
		{"end: the answer is lost", kmsg.EndTxn, nil, true},
		{"produce: appended, and timed out", kmsg.Produce, kerr.RequestTimedOut, false},
		{"produce: appended, with too few replicas", kmsg.Produce, kerr.NotEnoughReplicasAfterAppend, false},
		{"produce: the answer is lost", kmsg.Produce, nil, true},
		{"produce: out of order", kmsg.Produce, kerr.OutOfOrderSequenceNumber, false},
		{"produce: the last transaction is still being marked", kmsg.Produce, kerr.ConcurrentTransactions, false},
		{"open: the id is unknown", kmsg.InitProducerID, kerr.CoordinatorLoadInProgress, false},
		{"open: no id mapping", kmsg.EndTxn, kerr.InvalidProducerIDMapping, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 11})
				stop := make(chan struct{})
				hits := 0
				var losing sync.WaitGroup
				losing.Go(func() {
					for {
						select {
						case <-time.After(3 * time.Second):
						case <-stop:
							return
						}
						if c.cut {
							hits++
							loseAnswer(w, c.key)
							continue
						}
						h := w.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{c.key}, Err: c.err, Count: 1})
						time.Sleep(time.Second)
						hits += h.Hits()
						h.Remove()
					}
				})
				time.AfterFunc(30*time.Second, func() { close(stop) })
				storm(w)
				losing.Wait()
				if hits == 0 && c.key != kmsg.InitProducerID {
					t.Error("no answer was lost")
				}
			})
		})
	}
}

// loseAnswer lets the broker carry out the next request of a kind and cuts every
// node's connections before the answer is there.
func loseAnswer(w *sim.World, key kmsg.Key) {
	w.Cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.Cluster.DropControl()
		for _, n := range w.Nodes() {
			n.Cut()
		}
		return nil, nil, false
	})
}
