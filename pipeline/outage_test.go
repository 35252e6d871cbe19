package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestOutage takes the broker away for ten minutes while triggers are due
// (docs/testing.md F38): what is overdue and pending is told all the while, however
// often the partition is opened in vain, and it goes on by itself.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		name string
		hit  func(w *sim.World, n *sim.Node) (heal func())
	}{
		{"silent", func(_ *sim.World, n *sim.Node) func() { n.Hang(); return n.Heal }},
		{"cut off", func(_ *sim.World, n *sim.Node) func() { n.Hang(); n.Cut(); return n.Heal }},
		{"gone", func(_ *sim.World, n *sim.Node) func() { n.Refuse(); return n.Heal }},
		{"refusing", func(w *sim.World, _ *sim.Node) func() {
			return w.Cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.EndTxn},
				Err:  kerr.ClusterAuthorizationFailed, Count: 1 << 30,
			}).Remove
		}},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { away(t, c.hit) }) })
	}
}

func away(t *testing.T, hit func(*sim.World, *sim.Node) func()) {
	w := sim.New(t, sim.Options{Partitions: 1})
	n := w.Start("a")
	w.AwaitOwners()
	for i := range 10 {
		w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Minute))
	}
	time.Sleep(30 * time.Second)
	heal := hit(w, n)
	time.Sleep(time.Minute)
	for minute := range 9 {
		parts := n.Engine.Partitions()
		if len(parts) == 0 {
			t.Errorf("%v away, nothing is told", time.Duration(minute+1)*time.Minute)
			parts = make([]pipeline.Status, 1)
		}
		s := parts[0]
		if want := 30*time.Second + time.Duration(minute)*time.Minute; s.OldestOverdue.Round(time.Second) != want {
			t.Errorf("%v away, the oldest is said to be %v overdue, want %v (%s)", time.Duration(minute+1)*time.Minute,
				s.OldestOverdue, want, s.Doing)
		}
		if s.Pending != 10 {
			t.Errorf("%d triggers are said to be pending, want 10 (%s)", s.Pending, s.Doing)
		}
		time.Sleep(time.Minute)
	}
	heal()
	time.Sleep(time.Minute)
	w.AwaitOwners()
	if s := n.Engine.Partitions()[0]; s.OldestOverdue != 0 || !s.Ready {
		t.Errorf("a minute after the broker is back the oldest is %v overdue, ready %v", s.OldestOverdue, s.Ready)
	}
	w.CheckInvariants()
}
