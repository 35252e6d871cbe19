package recovery

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func testReplica(t *testing.T) *Replica {
	t.Helper()
	st, err := statestore.Open(statestore.Options{Dir: "/p0", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	c := &Config{Logger: slog.New(slog.DiscardHandler), MaxAway: time.Hour, Chunk: DefaultChunk, Stored: func(int32) {}}
	return c.NewReplica(0, st)
}

// TestReplicaForgets: a tombstone takes out what an earlier batch has brought in.
func TestReplicaForgets(t *testing.T) {
	r := testReplica(t)
	value, err := topics.AppendState(nil, &trigger.State{
		Key: "k", Status: trigger.Pending, Revision: 1,
		Series: trigger.Series{At: 1000, Occurrence: "o"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for offset, value := range [][]byte{value, nil} {
		if err := r.take(&kgo.Record{Key: []byte("k"), Value: value, Offset: int64(offset)}); err != nil {
			t.Fatal(err)
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, err := r.store.Get("k", nil); err != nil || (got != nil) != (value != nil) {
			t.Errorf("behind offset %d the store has %q, %v", offset, got, err)
		}
	}
}

// TestReplicaStopsAtTheUnreadable: nothing at or behind a record that cannot be read counts as
// read, whatever the caller stores after that.
func TestReplicaStopsAtTheUnreadable(t *testing.T) {
	for key, value := range map[string][]byte{
		string(topics.KeyProgress): {1 << 3, 99}, // format 99
		string(topics.KeyGuard):    {0xff},
	} {
		r := testReplica(t)
		r.since = trigger.At(time.Now())
		rs := []*kgo.Record{{Key: []byte("k"), Offset: 0}, {Key: []byte(key), Value: value, Offset: 1}}
		fs := kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{Records: rs}}}}}}
		if err := r.Apply(fs, r.since); err == nil {
			t.Fatalf("%s was read", key)
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		if at, err := r.position(); at != 1 || err != nil {
			t.Errorf("%s: the next one to read is %d, %v; the one at 1 was not", key, at, err)
		}
	}
}

// TestStaleFilling: a store that was being filled is resumed if it is known when
// that began, and that is not too long ago.
func TestStaleFilling(t *testing.T) {
	ids, now := TopicIDs{State: [16]byte{1}}, trigger.At(time.Now())
	for _, c := range []struct {
		name  string
		began reading
		stale bool
	}{
		{"just now", reading{topic: ids.State, at: now - 1000}, false},
		{"long ago", reading{topic: ids.State, at: now.Add(-2 * time.Hour)}, true},
		{"its start time is unknown", reading{topic: ids.State}, true},
		{"of another topic", reading{topic: [16]byte{2}, at: now - 1000}, true},
	} {
		r := testReplica(t)
		r.batch.SetMeta(MetaPosition, Number(100))
		r.batch.SetMeta(metaReading, c.began.encode())
		if err := r.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		if reason, err := r.stale(ids, now); (reason != "") != c.stale || err != nil {
			t.Errorf("%s: %q, %v", c.name, reason, err)
		}
	}
}
