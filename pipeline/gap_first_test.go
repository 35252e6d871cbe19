package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGapBeforeTheFirstCommand: an owner has run the partition, and nothing had
// come yet. Commands that came while nobody ran it, and were deleted unread, are
// missing like any others.
func TestGapBeforeTheFirstCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, accept := gapWorld(t)
		time.Sleep(5 * time.Second)
		_ = w.Stop("a")
		for i := range 5 {
			w.Register(fmt.Sprint("k", i), time.Now().Add(time.Hour))
		}
		if err := w.Cluster.DeleteRecords(w.Names.Commands(), 0, 5); err != nil {
			t.Fatal(err)
		}
		n := w.Start("a")
		time.Sleep(20 * time.Second)
		if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "begins at 5, but was read only up to 0") {
			t.Fatalf("not ready: %s; five acknowledged commands are gone, and nobody is told", why)
		}
		*accept = gapsOf(t, n)
		w.Kill("a")
		w.Start("a")
		w.AwaitOwners()
		w.Register("after", time.Now().Add(time.Minute))
		time.Sleep(time.Hour)
		w.RequireDelivered("after", 1)
	})
}
