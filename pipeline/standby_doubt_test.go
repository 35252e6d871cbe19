package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// ownerAndStandby starts two nodes of one partition, and returns them once the standby is warm.
func ownerAndStandby(t *testing.T, w *sim.World) (owner, standby *sim.Node) {
	t.Helper()
	w.Start("a")
	w.Start("b")
	w.AwaitOwners()
	w.Register("x", time.Now().Add(time.Hour))
	time.Sleep(20 * time.Second)
	at := standbys(t, w, 1)
	return w.Owner(0), w.Node(at[0][0])
}

// takesOver kills the owner for good and waits until the standby has tried to take over.
func takesOver(w *sim.World, owner *sim.Node) {
	w.Kill(owner.Name)
	w.SetDisk(owner.Name, nil)
	time.Sleep(time.Minute)
}

// TestStandbyOfTruncatedState: topic state loses a turn that a standby has read, and the owner
// dies. The standby's store is the only evidence of it, so it must refuse, not wipe and go on.
func TestStandbyOfTruncatedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accept []pipeline.Gap
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.Standby, o.AcceptGaps = 1, accept
		}})
		owner, standby := ownerAndStandby(t, w)
		w.Truncate(w.Names.State(), 0, lastTurnBegins(w))
		takesOver(w, owner)
		if why := fmt.Sprint(standby.Engine.Unready()); !strings.Contains(why, "lost its end") {
			t.Fatalf("not ready: %s; turns are gone, and nobody is asked", why)
		}
		accept = gapsOf(t, standby)
		w.Kill(standby.Name)
		w.Start(standby.Name)
		w.AwaitOwners()
		time.Sleep(2 * time.Hour)
		w.RequireDelivered("x", 1)
	})
}

// lastTurnBegins is the offset in topic state behind the marker of the turn before the last.
func lastTurnBegins(w *sim.World) (from int64) {
	all := w.Read(kgo.ReadUncommitted(), w.Names.State())[w.Names.State()][0]
	last := len(all) - 1
	for last >= 0 && string(all[last].Key) != string(topics.KeyProgress) {
		last--
	}
	for _, r := range all[:max(last, 0)] {
		if r.Attrs.IsControl() {
			from = r.Offset + 1
		}
	}
	return from
}

// TestStandbyOfNewerProgress: a standby must not step over a progress record that it cannot
// read. Its store would be of an older turn, and nobody could tell when it takes over.
func TestStandbyOfNewerProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: withStandby})
		owner, standby := ownerAndStandby(t, w)
		// format 99
		w.Produce(&kgo.Record{Topic: w.Names.State(), Key: topics.KeyProgress, Value: []byte{1 << 3, 99}})
		time.Sleep(20 * time.Second)
		takesOver(w, owner)
		if why := fmt.Sprint(standby.Engine.Unready()); !strings.Contains(why, "newer version") {
			t.Errorf("not ready: %s; a newer version has written turns", why)
		}
	})
}

// TestStandbyBesideRefused: a node that refuses one partition still fills its standbys of others.
func TestStandbyBesideRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2, Change: withStandby})
		// format 99: whoever owns partition 0 refuses it
		w.Produce(&kgo.Record{Topic: w.Names.State(), Key: []byte("x"), Value: []byte{1 << 3, 99}})
		w.Start("a")
		w.Start("b")
		time.Sleep(time.Minute)
		var refuses *sim.Node
		for _, n := range w.Nodes() {
			for _, s := range n.Engine.Partitions() {
				if s.Partition == 0 && s.Refused != "" {
					refuses = n
				}
			}
		}
		if refuses == nil || len(refuses.Engine.Standbys()) != 1 {
			t.Fatal("no node refuses partition 0 and is standby of the other")
		}
		many := make([]*kgo.Record, 150_000) // a standby that lacks so many is far behind
		for i := range many {
			many[i] = &kgo.Record{Topic: w.Names.State(), Partition: 1, Key: []byte("gone")}
		}
		cl := w.Client()
		defer cl.Close()
		if err := cl.ProduceSync(w.Context(), many...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		got := refuses.Engine.Standbys()
		if len(got) != 1 || got[0].Partition != 1 || got[0].Lag > 0 || !got[0].Warm {
			t.Errorf("the standby of partition 1: %+v", got)
		}
	})
}
