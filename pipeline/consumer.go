package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/trigger"
)

// consumer reads the partition's inputs: commands, receipts and settings. It knows how far
// they were read, what the read barrier still waits for (read_barrier.go), and which batches
// nobody can read (unreadable.go).
type consumer struct {
	opts  *Process
	id    int32
	log   *slog.Logger
	kafka *session
	clock *brokerClock

	barrier     barrier.Barrier
	control     int64     // next offset to read of topic control
	suspectedAt time.Time // when an input last seemed to stand still
}

// read polls Kafka for at most maxWait, until the turn has most records.
func (c *consumer) read(ctx context.Context, in *input, maxWait time.Duration, most int) error {
	records, err := c.kafka.poll(ctx, maxWait, max(most-len(in.records), 1))
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range records {
		c.barrier.Read(r.Topic, r.Offset, now)
		if r.Topic == c.opts.Names.Control() {
			c.control = r.Offset + 1
		}
	}
	in.records = append(in.records, records...)
	return c.passUnreadable(ctx, in)
}

// now is the time that decides what is due.
func (c *consumer) now() trigger.Instant { return c.clock.now(c.opts.Now()) }
