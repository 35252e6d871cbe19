package sim

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A node measures how far each of its partitions is behind topic commands, also one that makes
// no turns.
func TestLagOfAPartitionThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t, Options{Seed: 1, Partitions: 2, Brokers: 2})
		w.MoveLeader(w.Names.Commands(), 1) // one broker cannot answer for both
		var held atomic.Bool
		hold := make(chan struct{})
		w.OnStep(func(_ string, partition int32, _ string) {
			if partition == 0 && held.Load() {
				<-hold
			}
		})
		n := w.Start("a")
		w.AwaitOwners()
		held.Store(true)
		for i := range 10 {
			key := fmt.Sprint("t", i)
			w.SendFree(w.Home(key), key, `{"op":"register","delay":"1h"}`)
		}
		sent := map[int32]int64{}
		for i := range 10 {
			sent[w.Home(fmt.Sprint("t", i))]++
		}
		want := map[int32]int64{0: sent[0], 1: 0}
		check := func() {
			t.Helper()
			time.Sleep(3 * time.Second)
			for _, s := range n.Partitions() {
				if s.CommandsLag != want[s.Partition] {
					t.Errorf("partition %d is %d commands behind, want %d",
						s.Partition, s.CommandsLag, want[s.Partition])
				}
			}
		}
		check()
		held.Store(false)
		close(hold)
		want[0] = 0
		check()
	})
}
