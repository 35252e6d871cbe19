package e2e

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

// written are the topics a turn writes.
func written(n topics.Names) []string {
	return []string{n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Due("default")}
}

// levels reads every topic a turn writes in both isolation levels. What a
// read_committed reader sees must be what the markers in the log say, no
// transaction may be left open, and every turn must be there whole (C10, C11).
func levels(t *testing.T, brokers []string, prefix string) (committed map[string][]*kgo.Record, aborted int,
	found []string,
) {
	t.Helper()
	names := topics.Names{Prefix: prefix}
	committed = map[string][]*kgo.Record{}
	for _, topic := range written(names) {
		found = append(found, hanging(t, brokers, topic)...)
		all := services.ReadTopic(t, brokers, topic, kgo.ReadUncommitted())
		committed[topic] = dump(t, brokers, topic)
		visible, dropped := resolve(all)
		aborted += dropped
		found = append(found, compare(topic, visible, committed[topic])...)
	}
	return committed, aborted, append(found, sim.Turns(names, committed)...)
}

// hanging names the partitions whose stable end is not their end: somebody's
// transaction is still open there.
func hanging(t *testing.T, brokers []string, topic string) (found []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	adm := kadm.NewClient(cl)
	stable, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	stable.Each(func(o kadm.ListedOffset) {
		// Nodes still run, so the end may have moved on: only what has not moved at all hangs.
		if end, ok := ends.Lookup(topic, o.Partition); ok && end.Offset > o.Offset &&
			ongoing(adm, topic, o.Partition, 15*time.Second) {
			found = append(found, fmt.Sprintf("%s/%d is stable up to %d only, its end is %d", topic, o.Partition,
				o.Offset, end.Offset))
		}
	})
	return found
}

// ongoing says that the stable end of a partition stays where it is, below its
// end, for as long.
func ongoing(adm *kadm.Client, topic string, partition int32, long time.Duration) bool {
	at := func(list func(context.Context, ...string) (kadm.ListedOffsets, error)) int64 {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		offsets, err := list(ctx, topic)
		if err != nil {
			return -1
		}
		o, _ := offsets.Lookup(topic, partition)
		return o.Offset
	}
	first := at(adm.ListCommittedOffsets)
	for begin := time.Now(); time.Since(begin) < long; time.Sleep(100 * time.Millisecond) {
		if stable := at(adm.ListCommittedOffsets); stable != first || stable == at(adm.ListEndOffsets) {
			return false
		}
	}
	return true
}

// resolve is what the markers of a log make of its records: those visible to
// a read_committed reader, and how many were aborted.
func resolve(log []*kgo.Record) (visible []*kgo.Record, aborted int) {
	type producer struct {
		partition int32
		id        int64
	}
	ended := map[*kgo.Record]bool{} // by its record: committed or not
	open := map[producer][]*kgo.Record{}
	for _, r := range log {
		p := producer{r.Partition, r.ProducerID}
		switch {
		case r.Attrs.IsControl():
			commit := len(r.Key) == 4 && r.Key[3] == 1 // version, type: two bytes each
			for _, held := range open[p] {
				ended[held] = commit
			}
			delete(open, p)
		case r.Attrs.IsTransactional():
			open[p] = append(open[p], r)
		default:
			ended[r] = true
		}
	}
	for _, r := range log {
		commit, known := ended[r]
		switch {
		case r.Attrs.IsControl() || !known:
		case commit:
			visible = append(visible, r)
		default:
			aborted++
		}
	}
	return visible, aborted
}

// compare holds what should be seen against what is. The log may have grown
// between the two.
func compare(topic string, want, got []*kgo.Record) (found []string) {
	type at struct {
		partition int32
		offset    int64
	}
	seen, last := map[at]*kgo.Record{}, map[int32]int64{}
	for _, r := range got {
		seen[at{r.Partition, r.Offset}] = r
	}
	for _, r := range want {
		last[r.Partition] = r.Offset
		g := seen[at{r.Partition, r.Offset}]
		if g == nil || !bytes.Equal(g.Key, r.Key) || !bytes.Equal(g.Value, r.Value) {
			found = append(found, fmt.Sprintf("%s/%d/%d was committed, and a read_committed reader does not see it",
				topic, r.Partition, r.Offset))
		}
		delete(seen, at{r.Partition, r.Offset})
	}
	for where := range seen {
		if where.offset < last[where.partition] {
			found = append(found, fmt.Sprintf("%s/%d/%d is seen by a read_committed reader and was not committed",
				topic, where.partition, where.offset))
		}
	}
	return found
}
