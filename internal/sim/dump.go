package sim

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Dump reads a whole topic as readers of committed records see it, partition
// by partition.
func (w *World) Dump(topic string) []*kgo.Record {
	w.T.Helper()
	return w.dump(topic, kgo.ReadCommitted())
}

// DumpAll reads a whole topic with what was aborted.
func (w *World) DumpAll(topic string) []*kgo.Record {
	w.T.Helper()
	return w.dump(topic, kgo.ReadUncommitted())
}

func (w *World) dump(topic string, level kgo.IsolationLevel) []*kgo.Record {
	w.T.Helper()
	info := w.Cluster.TopicInfo(topic)
	if info == nil {
		return nil
	}
	var out []*kgo.Record
	for _, p := range w.Cluster.PartitionInfos(topic) {
		if p.HighWatermark > p.LogStartOffset {
			out = append(out, w.dumpPartition(topic, p.Partition, p.LogStartOffset, p.HighWatermark, level)...)
		}
	}
	return out
}

func (w *World) dumpPartition(topic string, partition int32, start, end int64, level kgo.IsolationLevel) []*kgo.Record {
	w.T.Helper()
	return slices.DeleteFunc(w.readPartition(topic, partition, start, end, level), func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

// readPartition is dumpPartition with the markers of transactions.
func (w *World) readPartition(topic string, partition int32, start, end int64, level kgo.IsolationLevel) []*kgo.Record {
	w.T.Helper()
	cl := w.Client(kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(start)}}))
	defer cl.Close()
	ctx, cancel := w.context()
	defer cancel()
	var out []*kgo.Record
	for at := start; at < end; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			w.T.Fatalf("dump %s/%d at %d of %d: %v", topic, partition, at, end, err)
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			at = r.Offset + 1
			out = append(out, r)
		}
	}
	return out
}

// CompactState lets the broker compact, tombstones and all. No node may run.
// Turns cannot be held against their manifests any more after that.
func (w *World) CompactState() {
	w.T.Helper()
	w.compacted = true
	w.Cluster.Compact()
	time.Sleep(time.Second)
	w.Cluster.Compact()
}
