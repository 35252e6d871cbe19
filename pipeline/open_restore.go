package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/recovery"
)

// restoreLog is the time between two log lines about the progress of a restore.
const restoreLog = 5 * time.Second

// restore applies topic state to the store, from the stored position up to the nonce.
func (o *opening) restore(ctx context.Context, nonce []byte) error {
	c := o.opts.Recovery()
	r := c.NewReplica(o.id, o.store)
	if err := r.WipeStale(o.ids, o.clock.latest(o.opts.Now())); err != nil {
		return err
	}
	r.Nonce = nonce
	if err := r.SameState(ctx, o.kafka.reader); err != nil {
		return err
	}
	end, err := r.Begin(ctx, o.kafka.cl, o.now())
	if err != nil {
		return err
	}
	if end-r.Next > int64(c.Chunk) {
		restored, err := o.mayRestore(ctx)
		if err != nil {
			return err
		}
		defer restored()
		o.store.Fill()
	}
	begin := time.Now()
	read, done, err := o.reading(r, end)
	if err != nil {
		return err
	}
	defer done()
	from, logged := r.Next, begin
	for !r.Done {
		pctx, cancel := context.WithTimeout(ctx, openStep)
		fs, err := read(pctx)
		cancel()
		if err != nil {
			return err // for one, that nothing came within openStep although the nonce exists
		}
		if err := r.Apply(fs, o.now()); err != nil {
			return err
		}
		o.kept.restoring(r.Next-from, end-from)
		if now := time.Now(); now.Sub(logged) >= restoreLog {
			logged = now
			o.log.Info("restoring from topic state", "read", r.Next-from, "of", end-from, "per_second",
				int64(float64(r.Records)/now.Sub(begin).Seconds()))
		}
	}
	if err := errors.Join(r.Flush(), o.store.Filled()); err != nil {
		return err
	}
	o.progress, o.stateLog.guard = r.Progress, r.Guard
	o.opts.Listener.Restored(o.id, r.Records, time.Since(begin))
	return nil
}

// restoreAtOnce bounds how many partitions of a process restore at a time. Each has fetches and batches in memory, and
// a few use all cores. The rest of an opening is questions to brokers.
const restoreAtOnce = 4

// mayRestore waits until few others restore. Partitions that need no restore do not wait for this one.
func (o *opening) mayRestore(ctx context.Context) (done func(), err error) {
	o.kept.Step(StepWaitToOpen)
	defer o.kept.Step(StepRestore)
	o.kept.restores()
	select {
	case o.opts.restoring <- struct{}{}:
		return func() { <-o.opts.restoring }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// nearEnd is how many records the connected client reads itself. To connect another one
// would take longer.
const nearEnd = 1000

// reading returns a function that reads topic state from r.Next on, to its end.
func (o *opening) reading(r *recovery.Replica, end int64) (read func(context.Context) (kgo.Fetches, error),
	done func(), err error,
) {
	if end-r.Next <= nearEnd {
		next := r.Next
		return func(ctx context.Context) (fs kgo.Fetches, err error) {
			fs, next, err = o.kafka.reader.ReadFrom(ctx, o.state(), next, o.opts.isolation(), o.opts.decompressor())
			return fs, err
		}, func() {}, nil
	}
	cl, err := r.Client()
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (kgo.Fetches, error) {
		fs := cl.PollFetches(ctx) // the next batch is fetched while this one is applied
		return fs, recovery.FetchFailed(ctx, fs)
	}, cl.Close, nil
}
