package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
)

// TestNewerState: a partition that holds what a newer version has written is
// refused, and says so (docs/testing.md F35). The others of the process go on.
func TestNewerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		w.Start("a")
		w.AwaitOwners()
		w.RegisterOn(1, keyOn(1), time.Now().Add(time.Hour))
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		// format 99
		w.Produce(&kgo.Record{Topic: w.Names.State(), Partition: 0, Key: []byte("x"), Value: []byte{1 << 3, 99}})
		n := w.Start("a")
		time.Sleep(2 * time.Hour)
		w.RequireDelivered(keyOn(1), 1)
		if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "partition 0 is refused") ||
			!strings.Contains(why, "newer version") || strings.Contains(why, "partition 1") {
			t.Errorf("not ready because %s", why)
		}
		for _, s := range n.Engine.Partitions() {
			if want := map[int32]string{0: "newer_format"}[s.Partition]; s.Refused != want || s.Ready != (want == "") {
				t.Errorf("partition %d: refused %q, ready %v", s.Partition, s.Refused, s.Ready)
			}
		}
	})
}

// keyOn is a key of a partition of two.
func keyOn(partition int32) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("k", i); partitionOf(key) == partition {
			return key
		}
	}
}

func partitionOf(key string) int32 { return topics.Partition([]byte(key), 2) }
