package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestRestoredTopics: all topics are lost, and state is made again from a copy. A new engine asks
// for commands and for receipts, in two starts. It does not say that the triggers are lost, too:
// what its store has is from this topic state.
func TestRestoredTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, accept := gapWorld(t)
		w.Register("k", time.Now().Add(time.Hour))
		time.Sleep(5 * time.Second)
		_ = w.Stop("a")
		state := w.Dump(w.Names.State())
		for _, topic := range []string{w.Names.Commands(), w.Names.Receipts(), w.Names.State(), w.Names.Control()} {
			remake(t, w, topic)
		}
		for _, r := range state {
			w.Produce(&kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value})
		}
		w.SetDisk("a", nil)
		for _, topic := range []string{w.Names.Commands(), w.Names.Receipts()} {
			n := w.Start("a")
			time.Sleep(20 * time.Second)
			if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "topic "+topic+" was deleted") {
				t.Errorf("not ready: %s, want a word about %s", why, topic)
			}
			*accept = append(*accept, gapsOf(t, n)...)
			w.Kill("a")
		}
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(2 * time.Hour)
		w.RequireDelivered("k", 1)
	})
}
