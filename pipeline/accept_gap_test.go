package pipeline_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// gapWorld has one partition, which node a owns. A node that starts from now on accepts the gaps that accept
// holds then.
func gapWorld(t *testing.T) (w *sim.World, accept *[]pipeline.Gap) {
	accept = new([]pipeline.Gap)
	w = sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) { o.AcceptGaps = *accept }})
	w.Start("a")
	w.AwaitOwners()
	return w, accept
}

// TestAcceptedGapServesOnce: who has accepted that receipts were made again, and
// left it in the node's command line, has not accepted that of any other topic,
// nor of the same one the next time.
func TestAcceptedGapServesOnce(t *testing.T) {
	for _, next := range []string{"receipts", "commands", "state"} {
		t.Run(next, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, accept := gapWorld(t)
				w.Register("k", time.Now().Add(time.Hour))
				time.Sleep(5 * time.Second)
				_ = w.Stop("a")
				remake(t, w, w.Names.Receipts())
				n := w.Start("a")
				time.Sleep(20 * time.Second)
				*accept = gapsOf(t, n)
				w.Kill("a")
				w.Start("a")
				w.AwaitOwners()
				_ = w.Stop("a")
				remake(t, w, "waterclock."+next)
				n = w.Start("a")
				time.Sleep(20 * time.Second)
				if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "deleted and made again") {
					t.Errorf("not ready: %s", why)
				}
			})
		})
	}
}

// TestAcceptedAbsenceServesOnce: who has accepted one long absence, and left it in the node's
// command line, has not accepted the next one, although no command came in between.
func TestAcceptedAbsenceServesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, accept := gapWorld(t)
		w.Register("k", time.Now().Add((16*24+1)*time.Hour))
		time.Sleep(5 * time.Second)
		for range 2 {
			_ = w.Stop("a")
			time.Sleep(8 * 24 * time.Hour)
			n := w.Start("a")
			time.Sleep(20 * time.Second)
			if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "no engine ran partition 0") {
				t.Fatalf("not ready: %s", why)
			}
			*accept = append(*accept, gapsOf(t, n)...)
			w.Kill("a")
			w.Start("a")
			w.AwaitOwners()
		}
		time.Sleep(2 * time.Hour)
		w.RequireDelivered("k", 1)
	})
}

// TestTwoGapsAtOnce: a partition was away for longer than one gap. The message of
// the second names the first, too, since both have to be accepted at once.
func TestTwoGapsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, accept := gapWorld(t)
		w.Register("k", time.Now().Add(time.Hour))
		time.Sleep(5 * time.Second)
		_ = w.Stop("a")
		for i := range 5 {
			w.Register(fmt.Sprint("k", i), time.Now().Add(time.Hour))
		}
		time.Sleep(40 * 24 * time.Hour)
		if err := w.Cluster.DeleteRecords(w.Names.Commands(), 0, 6); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			n := w.Start("a")
			time.Sleep(20 * time.Second)
			why := fmt.Sprint(n.Engine.Unready())
			asks := regexp.MustCompile(`--accept-gap (\S+)`).FindStringSubmatch(why)
			if asks == nil {
				t.Fatalf("not ready: %s", why)
			}
			var err error
			if *accept, err = pipeline.ParseGaps(asks[1]); err != nil {
				t.Fatal(err)
			}
			w.Kill("a")
		}
		n := w.Start("a")
		time.Sleep(20 * time.Second)
		if err := n.Engine.Unready(); err != nil {
			t.Errorf("after two messages were decided: %v", err)
		}
	})
}
