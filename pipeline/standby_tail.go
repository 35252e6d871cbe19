package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// tail is one standby: it reads topic state of a partition into a store.
type tail struct {
	cancel context.CancelFunc
	done   chan struct{}
	store  *statestore.Store // open when done, if it ended well; nil else

	lag, pending atomic.Int64
	warm         atomic.Bool
}

// What a standby may take away from owners on the same machine.
const (
	tailChunk    = 5_000                  // records of one batch
	tailPause    = 200 * time.Millisecond // between looks, once it is near the end: many turns become one batch
	tailFar      = 50_000                 // records behind the end that are far
	tailShare    = 3                      // far behind, it rests three times as long as it works
	tailWhenOpen = 100 * time.Millisecond // how often it asks whether owners are still opening
	tailRetry    = time.Second
)

// startTail begins a standby. The caller holds e.mu.
func (e *Engine) startTail(id int32) *tail {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tail{cancel: cancel, done: make(chan struct{})}
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
			putAside(&e.opts, id, e.opts.Logger.With("partition", id), err)
			retry := tailRetry
			switch {
			case errors.Is(err, statestore.ErrInUse): // its last owner is still closing it
			case errors.Is(err, ErrGap): // what is on this disk an operator has to decide on
				retry = time.Minute
				fallthrough
			default:
				e.opts.Logger.Warn("a standby failed; beginning it again", "partition", id, "error", err)
			}
			wait.For(ctx, retry)
		}
	}()
	return t
}

// tail reads until ctx ends; what it has read is then in the store.
func (e *Engine) tail(ctx context.Context, t *tail, id int32) (err error) {
	own, err := ownTopics(ctx, &e.opts, e.cl)
	if err != nil {
		return err
	}
	if t.store, err = openStore(&e.opts, id, e.opts.Logger.With("partition", id)); err != nil {
		return err
	}
	r := newReplica(&e.opts, id, t.store)
	newest, err := e.newestAppend(ctx, id)
	if err != nil {
		return err
	}
	local, began := trigger.At(e.opts.Now()), time.Now()
	now := func() trigger.Instant { return max(newest, local).Add(time.Since(began)) }
	if err := r.distrust(idsOf(own), now()); err != nil { // a clock that is behind makes nothing young
		return err
	}
	end, err := r.begin(ctx, e.cl, min(newest, local)) // and one that is ahead makes nothing younger
	if err != nil {
		return err
	}
	cl, err := r.reader()
	if err != nil {
		return err
	}
	defer cl.Close()
	if r.began.at > 0 { // begun anew: however wrong our clock is, no time has passed
		r.since = now()
	}
	for {
		t.lag.Store(max(0, end-r.next))
		t.pending.Store(t.store.PendingCount())
		if end-r.next >= tailFar {
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

// read takes one fetch into the store, and returns where topic state ends.
func (e *Engine) read(ctx context.Context, r *replica, cl *kgo.Client, end int64, now func() trigger.Instant) (int64, error) {
	fs := cl.PollRecords(ctx, tailChunk)
	if err := fetchFailed(ctx, fs); err != nil {
		return 0, err
	}
	fs.EachPartition(func(p kgo.FetchTopicPartition) { end = max(end, p.LastStableOffset) })
	if err := errors.Join(r.apply(fs, now()), r.flush()); err != nil {
		return 0, fmt.Errorf("standby: %w", err)
	}
	return end, nil
}

// giveWay paces one step of a standby. Near the end it must keep up with its
// owner, and does not read oftener than it has to. Far behind it is the only
// one of the process, waits while partitions of ours open, and rests longer
// than it works.
func (e *Engine) giveWay(ctx context.Context, t *tail, step func() error) error {
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

// newestAppend is when the newest record of topic state was appended, which is
// never after the brokers' now.
func (e *Engine) newestAppend(ctx context.Context, id int32) (trigger.Instant, error) {
	const newest = -3
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	answers, err := kafkapart.FindOffsets(ctx, e.cl, []string{e.opts.Names.State()}, id, kafkapart.ReadUncommitted, newest)
	if err != nil {
		return 0, err
	}
	return trigger.Instant(answers[0].Timestamp), nil
}
