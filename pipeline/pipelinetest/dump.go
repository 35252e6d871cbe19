package pipelinetest

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Dump reads a whole topic as readers of committed records see it, partition
// by partition.
func (w *World) Dump(topic string) []*kgo.Record {
	w.T.Helper()
	return Flat(w.Read(kgo.ReadCommitted(), topic))[topic]
}

// DumpAll reads a whole topic with what was aborted.
func (w *World) DumpAll(topic string) []*kgo.Record {
	w.T.Helper()
	return Flat(w.Read(kgo.ReadUncommitted(), topic))[topic]
}

// Flat puts a topic's partitions one behind the other, without the markers of
// transactions.
func Flat(all map[string]map[int32][]*kgo.Record) map[string][]*kgo.Record {
	out := map[string][]*kgo.Record{}
	for topic, partitions := range all {
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			for _, r := range partitions[p] {
				if !r.Attrs.IsControl() {
					out[topic] = append(out[topic], r)
				}
			}
		}
	}
	return out
}

// Topics are all there are.
func (w *World) Topics() []string {
	w.T.Helper()
	cl := w.Client()
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListTopics(w.Context())
	if err != nil {
		w.T.Fatalf("list topics: %v", err)
	}
	return listed.Names()
}

// Read reads topics from their beginnings to their ends, markers of
// transactions included. The brokers must be the world's own.
func (w *World) Read(level kgo.IsolationLevel, names ...string) map[string]map[int32][]*kgo.Record {
	w.T.Helper()
	from, ends := map[string]map[int32]kgo.Offset{}, map[string]map[int32]int64{}
	left := 0
	for _, topic := range names {
		if w.Cluster.TopicInfo(topic) == nil {
			continue
		}
		for _, p := range w.Cluster.PartitionInfos(topic) {
			if p.HighWatermark == p.LogStartOffset {
				continue
			}
			if from[topic] == nil {
				from[topic], ends[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
			}
			from[topic][p.Partition], ends[topic][p.Partition] = kgo.NewOffset().At(p.LogStartOffset), p.HighWatermark
			left++
		}
	}
	out := map[string]map[int32][]*kgo.Record{}
	if left == 0 {
		return out
	}
	cl := w.Client(kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.ConsumePartitions(from))
	defer cl.Close()
	ctx := w.Context()
	for left > 0 {
		fs := cl.PollFetches(ctx)
		err := fs.Err0()
		if _, answered := errors.AsType[*kerr.Error](err); answered {
			// a fault of the broker's: of other partitions there may be records, and this one is
			// asked again
			time.Sleep(time.Millisecond)
		} else if err != nil {
			w.T.Fatalf("dump: %d partitions not read to their ends: %v", left, err)
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			if out[r.Topic] == nil {
				out[r.Topic] = map[int32][]*kgo.Record{}
			}
			end, open := ends[r.Topic][r.Partition]
			if open && r.Offset >= end-1 {
				delete(ends[r.Topic], r.Partition)
				left--
			}
			if open && r.Offset < end { // else written since
				out[r.Topic][r.Partition] = append(out[r.Topic][r.Partition], r)
			}
		}
	}
	return out
}

// Header is the value of a record's header, "" without it.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
