package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// tail is one standby: it reads topic state of a partition into a store.
type tail struct {
	cancel context.CancelFunc
	done   chan struct{}
	store  *statestore.Store // after done: open if the tail ended well, else nil

	lag, pending atomic.Int64
	warm         atomic.Bool

	newer string // what it has said of a newer version
}

// These bounds limit what a standby takes from owners on the same machine.
const (
	tailChunk    = 5_000                  // records of one batch
	tailPause    = 200 * time.Millisecond // pause between reads near the end, so that many turns become one batch
	tailFar      = 50_000                 // more records behind the end than this is far
	tailShare    = 3                      // far behind, it rests three times as long as it works
	tailWhenOpen = 100 * time.Millisecond // time between two checks whether owners are still opening
	tailRetry    = time.Second
)

// startTail begins a standby. The caller holds e.mu.
func (e *Engine) startTail(id int32) *tail {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tail{cancel: cancel, done: make(chan struct{})}
	e.holdLocked(id)
	go func() {
		defer close(t.done)
		for ctx.Err() == nil {
			err := e.tail(ctx, t, id)
			if ctx.Err() != nil {
				return
			}
			t.warm.Store(false)
			if t.store != nil {
				_ = t.store.Close()
				t.store = nil
			}
			e.process.Recovery().QuarantineDamaged(id, e.process.Logger.With("partition", id), err)
			retry := tailRetry
			switch {
			case errors.Is(err, statestore.ErrInUse): // its last owner is still closing it
			case !t.news(err):
			case errors.Is(err, pipeline.ErrGap): // an operator must decide about what is on this disk
				retry = time.Minute
				fallthrough
			default:
				e.process.Logger.Warn("a standby failed; starting it again", "partition", id, "error", err)
			}
			wait.For(ctx, retry)
		}
	}()
	return t
}

// news reports whether an error is worth a line of the log. That a newer version has written is, until it says
// something else: it ends by an upgrade alone.
func (t *tail) news(err error) bool {
	said := t.newer
	if t.newer = ""; errors.Is(err, topics.ErrNewer) {
		t.newer = err.Error()
	}
	return t.newer == "" || t.newer != said
}

// tail reads until ctx ends. By then the store has all that was read.
func (e *Engine) tail(ctx context.Context, t *tail, id int32) (err error) {
	c := e.process.Recovery()
	own, err := c.Topics(ctx, e.cl)
	if err != nil {
		return err
	}
	if t.store, err = c.OpenStore(id, e.process.Logger.With("partition", id)); err != nil {
		return err
	}
	r := c.NewReplica(id, t.store)
	newest, err := e.newestAppend(ctx, id)
	if err != nil {
		return err
	}
	earliest, latest := brokersNow(newest, trigger.At(e.process.Now()))
	began := time.Now()
	now := func() trigger.Instant { return latest.Add(time.Since(began)) }
	if err := r.WipeStale(recovery.IDsOf(own), now()); err != nil { // a clock that is behind makes nothing young
		return err
	}
	if err := r.SameState(ctx, kafkapart.NewReader(e.cl)); err != nil { // Begin would wipe the only evidence
		return err
	}
	end, err := r.Begin(ctx, e.cl, earliest) // a clock that is ahead makes nothing younger
	if err != nil {
		return err
	}
	cl, err := r.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	r.Restarted(now())
	for {
		t.lag.Store(max(0, end-r.Next))
		t.pending.Store(t.store.PendingCount())
		if end-r.Next >= tailFar {
			t.store.Fill()
		} else if err := t.store.Filled(); err != nil {
			return err
		} else {
			t.warm.Store(true)
		}
		if err := e.giveWay(ctx, t, func() error { end, err = e.read(ctx, r, cl, end, now); return err }); err != nil {
			return err
		}
	}
}

// read applies one fetch to the store, and returns the end of topic state.
func (e *Engine) read(
	ctx context.Context, r *recovery.Replica, cl *kgo.Client, end int64, now func() trigger.Instant,
) (int64, error) {
	fs := cl.PollRecords(ctx, tailChunk)
	if err := recovery.FetchFailed(ctx, fs); err != nil {
		return 0, err
	}
	fs.EachPartition(func(p kgo.FetchTopicPartition) { end = max(end, p.LastStableOffset) })
	err := r.Apply(fs, now())
	if err == nil { // else the batch is dropped: part of it may be in it twice
		err = r.Flush()
	}
	if err != nil {
		return 0, fmt.Errorf("standby: %w", err)
	}
	return end, nil
}

// giveWay paces one step of a standby. Near the end it must keep up with the owner, and
// reads no oftener than needed. Far behind, only one standby of the process reads. It waits
// while our own partitions open, and rests longer than it works.
func (e *Engine) giveWay(ctx context.Context, t *tail, step func() error) error {
	for e.process.Pressed() && ctx.Err() == nil { // owners get memory first
		t.warm.Store(false)
		wait.For(ctx, tailRetry)
	}
	if t.lag.Load() < tailFar {
		wait.For(ctx, tailPause)
		return errors.Join(ctx.Err(), step())
	}
	select {
	case e.filling <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.filling }()
	for e.opening.Load() > 0 && ctx.Err() == nil {
		wait.For(ctx, tailWhenOpen)
	}
	began := time.Now()
	if err := step(); err != nil {
		return err
	}
	wait.For(ctx, tailShare*time.Since(began))
	return ctx.Err()
}

// brokersNow returns the bounds of the brokers' time, by the newest append and the local clock.
// An empty topic has no newest append.
func brokersNow(newest, local trigger.Instant) (earliest, latest trigger.Instant) {
	if newest <= 0 {
		return local, local
	}
	return min(newest, local), max(newest, local)
}

// newestTimeout bounds newestAppend.
const newestTimeout = 20 * time.Second

// newestAppend returns when the newest record of topic state was appended, -1 if there is none.
// That is never later than the brokers' now.
func (e *Engine) newestAppend(ctx context.Context, id int32) (trigger.Instant, error) {
	ctx, cancel := context.WithTimeout(ctx, newestTimeout)
	defer cancel()
	state := []string{e.process.Names.State()}
	answers, err := kafkapart.FindOffsets(ctx, e.cl, state, id, kafkapart.ReadUncommitted, kafkapart.NewestTimestamp)
	if err != nil {
		return 0, err
	}
	return trigger.Instant(answers[0].Timestamp), nil
}
