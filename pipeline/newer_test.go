package pipeline_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
)

// TestNewerState: an engine that meets what a newer version has written ends
// and says so (FAILURES F35). It would otherwise keep the partition from those
// who can read it.
func TestNewerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		w.Register("x", time.Now().Add(time.Hour))
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		w.Send(&kgo.Record{Topic: w.Names.State(), Key: []byte("x"), Value: []byte{1 << 3, 99}}) // format 99
		n := w.Start("a")
		if err := n.Wait(); !errors.Is(err, topics.ErrNewer) {
			t.Errorf("the engine ended with %v, want ErrNewer", err)
		}
	})
}
