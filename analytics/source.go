package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ClientOptions are what an exporter's client needs. Aborted records must not be seen; the
// markers that end transactions must, because the last offset of a log may be one.
func ClientOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes),
	}
}

// fetchBytes bounds what is read ahead, before decompression.
const fetchBytes = 4 << 20

// source is the topic as it is when a pass begins.
type source struct {
	id     string
	starts []int64 // by partition: the first offset that is there
	ends   []int64 // by partition: the last stable offset

	// read gives visit the committed records of the offsets from first to end, in order. It
	// may call visit for the markers of transactions, too, and does so once at the end,
	// without a record: nothing that is committed stands below the offset at and is not
	// visited.
	read func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error

	// marks are the watermarks of a partition, back to the newest one that stands at or below an
	// offset, if there is one. It may be called while read is at work. Nil: there are none.
	marks func(ctx context.Context, p int32, next int64) (marks, error)
}

type visitor func(r *kgo.Record, at int64) error

func (e *Exporter) describe(ctx context.Context) (*source, error) {
	admin := kadm.NewClient(e.opts.Client)
	all, err := admin.ListTopics(ctx, e.opts.Topic)
	if err != nil {
		return nil, fmt.Errorf("find topic %s: %w", e.opts.Topic, err)
	}
	detail := all[e.opts.Topic]
	if detail.Err != nil {
		return nil, fmt.Errorf("find topic %s: %w", e.opts.Topic, detail.Err)
	}
	s := &source{id: detail.ID.String(), read: e.read, marks: e.readMarks}
	starts, err := admin.ListStartOffsets(ctx, e.opts.Topic)
	if err != nil {
		return nil, fmt.Errorf("find the start of %s: %w", e.opts.Topic, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, e.opts.Topic)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", e.opts.Topic, err)
	}
	for p := range int32(len(detail.Partitions)) { //nolint:gosec // a partition's number
		start, ok1 := starts.Lookup(e.opts.Topic, p)
		end, ok2 := ends.Lookup(e.opts.Topic, p)
		if err := errors.Join(start.Err, end.Err); err != nil || !ok1 || !ok2 {
			return nil, fmt.Errorf("find the bounds of %s, partition %d: %w", e.opts.Topic, p, err)
		}
		s.starts, s.ends = append(s.starts, start.Offset), append(s.ends, end.Offset)
	}
	return s, nil
}

// read is what source asks of it.
func (e *Exporter) read(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
	if first >= end {
		return nil
	}
	cl, topic := e.opts.Client, e.opts.Topic
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(first)}})
	defer cl.RemoveConsumePartitions(map[string][]int32{topic: {p}})
	since := time.Now() // when there was progress
	for next := first; next < end; {
		poll, cancel := context.WithDeadline(ctx, since.Add(e.silence))
		fetches := cl.PollRecords(poll, pollRecords)
		late := poll.Err() != nil
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		var failed, stop error
		fetches.EachError(func(_ string, of int32, err error) {
			if (of == p || of < 0) && !late && !kerr.IsRetriable(err) {
				failed = fmt.Errorf("read %s, partition %d, offset %d: %w", topic, p, next, err)
			}
		})
		was := next
		fetches.EachRecord(func(r *kgo.Record) {
			if stop != nil || r.Partition != p || r.Offset < next || r.Offset >= end {
				return
			}
			next = r.Offset + 1
			if r.Attrs.IsControl() {
				stop = visit(nil, r.Offset)
				return
			}
			stop = visit(r, r.Offset)
		})
		if next > was {
			since = time.Now()
		} else if late {
			failed = fmt.Errorf("read %s, partition %d, offset %d: no record within %v", topic, p, next, e.silence)
		}
		if err := errors.Join(stop, failed); err != nil {
			return err
		}
		step()
	}
	return visit(nil, end)
}

const pollRecords = 4096

// maxSilence is how long a read waits for records. All up to its end are committed, so they are
// there; the client hides that a broker is away, and asks on.
const maxSilence = time.Minute
