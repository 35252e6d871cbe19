package pipeline_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
)

// guardOf is the last guard of a partition.
func guardOf(t *testing.T, w *sim.World, partition int32) (last *topics.Guard) {
	t.Helper()
	for _, r := range w.Dump(w.Names.State()) {
		if string(r.Key) == string(topics.KeyGuard) && r.Partition == partition {
			g, err := topics.DecodeGuard(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			last = g
		}
	}
	return last
}

// TestUnreadableBatchWasReadLast: the last thing that was read of commands is a
// batch of one record that nobody can read. The leader changed before it. That is
// no log that lost its end.
func TestUnreadableBatchWasReadLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Brokers: 2})
		w.Start("a")
		w.AwaitOwners()
		w.Register("k", time.Now().Add(time.Hour))
		time.Sleep(5 * time.Second)
		if err := w.Cluster.MoveTopicPartition(w.Names.Commands(), 0, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.Register("l", time.Now().Add(time.Hour))
		time.Sleep(5 * time.Second)
		bomb := rawbatch.Spec{Codec: "gzip", Records: []rawbatch.Record{{
			Key: []byte("k"), Large: "value",
			Zeros: 200 << 20,
		}}}.Batch()
		w.SendBatch(w.Names.Commands(), 0, bomb)
		time.Sleep(10 * time.Second)
		if n := len(w.Dump(w.Names.Rejected())); n != 1 {
			t.Fatalf("%d records were refused, want the bomb", n)
		}
		_ = w.Stop("a")
		n := w.Start("a")
		time.Sleep(20 * time.Second)
		if err := n.Engine.Unready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
	})
}

// TestGuardBehindATransaction: the last command that was read is guarded also
// where a transaction's marker was read behind it.
func TestGuardBehindATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		var last int64
		for i := range 5 {
			r := &kgo.Record{Key: fmt.Append(nil, "k", i), Value: []byte(`{"op":"register","delay":"1h"}`)}
			openTransaction(t, w, "streams", 0, r)(kgo.TryCommit)
			last = r.Offset
			time.Sleep(5 * time.Second)
		}
		if g := guardOf(t, w, 0); g.Commands.Offset != last {
			t.Errorf("the guard has the record at %d, but the last that was read stands at %d", g.Commands.Offset, last)
		}
	})
}

// TestTruncatedBehindTheLastCommand: what commands lost of its end is the marker
// behind the last command that was read. What producers have put in its place since
// was never read.
func TestTruncatedBehindTheLastCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		r := &kgo.Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1h"}`)}
		openTransaction(t, w, "streams", 0, r)(kgo.TryCommit)
		time.Sleep(5 * time.Second)
		_ = w.Stop("a")
		marker := r.Offset + 1
		w.Cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			return epochEnds(req.(*kmsg.OffsetForLeaderEpochRequest), w.Names.Commands(), marker), nil, true
		})
		n := w.Start("a")
		time.Sleep(20 * time.Second)
		if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "lost its end") {
			t.Errorf("not ready: %s; the marker at %d was read, and the leader says that its epoch ended before it",
				why, marker)
		}
	})
}
