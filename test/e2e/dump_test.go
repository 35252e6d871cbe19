package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/trigger"
)

// dump reads all committed records of a topic up to its end now.
func dump(t *testing.T, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	out := dumpAt(t, brokers, topic, kgo.ReadCommitted())
	return slices.DeleteFunc(out, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

// dumpAt reads a topic up to its stable end at a level, markers included: each
// partition in the order of its log.
func dumpAt(t *testing.T, brokers []string, topic string, level kgo.IsolationLevel) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var out []*kgo.Record
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("dump of %s: %v left", topic, left)
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			out = append(out, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return out
}

func headers(r *kgo.Record) []trigger.Header {
	out := make([]trigger.Header, len(r.Headers))
	for i, h := range r.Headers {
		out[i] = trigger.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
