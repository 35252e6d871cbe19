package producer

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A kgo.Client hands the first records of a topic to its sinks before it files
// the partitions that it has just learnt of. What looks through its files in
// between does not see those records.

// secondFlush is after how long a flush that may have looked too early is begun
// anew.
const secondFlush = 10 * time.Millisecond

// Flush waits until brokers have acknowledged all that cl has buffered; wrote
// says where the first records of topics go that are new to it. kgo's own Flush ends the
// lingering of the partitions that are filed when it begins, and waits for the
// others as long as they linger.
func Flush(ctx context.Context, cl *kgo.Client, wrote ...*kgo.Record) error {
	for !filed(cl, wrote...) {
		step, cancel := context.WithTimeout(ctx, secondFlush)
		err := cl.Flush(step)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return cl.Flush(ctx)
}

// EndTransaction ends the transaction that cl is in; wrote says where records of
// it went that brokers have acknowledged, one of each topic that is new to cl.
// kgo's own EndTransaction looks only at the partitions that are
// filed: when the brokers are quicker than the filing, it takes the transaction
// for empty, and says nil to a commit that it made an abort (or, where brokers
// have no KIP-890 part 2, that it never sent). So the filing is awaited.
func EndTransaction(ctx context.Context, cl *kgo.Client, how kgo.TransactionEndTry, wrote ...*kgo.Record) error {
	for !filed(cl, wrote...) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Microsecond):
		}
	}
	return cl.EndTransaction(ctx, how)
}

// filed says whether cl has filed the partitions that records go to. Once a leader
// is known, one stays known.
func filed(cl *kgo.Client, records ...*kgo.Record) bool {
	for _, r := range records {
		if leader, _, _ := cl.PartitionLeader(r.Topic, r.Partition); leader < 0 {
			return false
		}
	}
	return true
}
