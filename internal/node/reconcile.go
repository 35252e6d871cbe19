package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// startReconcile compares the partitions of this process at setting reconcile.interval; 0 is
// never.
func (n *node) startReconcile(life *roles) {
	if n.cfg.Reconcile.Interval > 0 {
		life.start("reconcile", n.reconcileOften)
	}
}

func (n *node) reconcileOften(ctx context.Context) error {
	wait.Every(ctx, n.cfg.Reconcile.Interval, func() {
		for _, s := range n.engine.Partitions() {
			start := time.Now()
			r, err := n.reconcile(ctx, s.Partition, false)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, pipeline.ErrNotOwner): // its next owner does it
			case err != nil:
				n.log.Warn("a partition was not reconciled", "partition", s.Partition, "error", err)
			default:
				n.log.Debug("reconciled a partition", "partition", s.Partition, "triggers", r.Triggers,
					"timers", r.Timers, "rows", r.Rows, "leaks", r.Found, "overdue", r.Overdue,
					"took", time.Since(start))
			}
		}
	})
	return nil
}

// reconcile compares timers with states, and states with the rows of the history, where
// this process has one.
func (n *node) reconcile(ctx context.Context, partition int32, dry bool) (peer.Reconciled, error) {
	found, err := n.engine.Reconcile(ctx, partition, dry)
	out := reconciledOf(partition, &found)
	if err != nil {
		return out, err
	}
	if n.history == nil {
		out.RowsWhy = "the partition's owner has no history: give it the settings cassandra.*"
		return out, nil
	}
	c := &rowCheck{n: n, partition: partition, dry: dry, out: &out}
	if err := c.run(ctx); err != nil {
		return out, err
	}
	n.metrics.Leaked(c.leaks)
	return out, nil
}

func reconciledOf(partition int32, r *engine.Reconciled) peer.Reconciled {
	out := peer.Reconciled{
		Partition: partition, Triggers: r.Triggers, Timers: r.Timers, Overdue: r.Overdue, InFlight: r.InFlight,
		Found: int64(len(r.Leaks)) + r.More, Mended: int64(r.Mended), Leaks: []peer.Leak{},
	}
	for i := range r.Leaks {
		l := &r.Leaks[i]
		leak := peer.Leak{
			Kind: string(l.Kind), Occurrence: l.Timer.Occurrence, Detail: l.Error, Mended: r.Mended > 0,
		}
		if l.Timer.Due != 0 {
			leak.Due = l.Timer.Due.String()
		}
		name(&leak, l.Key)
		out.Leaks = append(out.Leaks, leak)
	}
	return out
}

func name(l *peer.Leak, key trigger.Key) {
	if key != "" {
		l.TriggerID, l.Tenant = key.ID(), key.Tenant()
	}
}

// rowCheck compares the rows of one partition's triggers with what the owner knows.
type rowCheck struct {
	n         *node
	partition int32
	dry       bool
	out       *peer.Reconciled
	leaks     int
}

// These bound a check: triggers in one go, rows read side by side, and rows listed.
const (
	rowChunk  = 1024
	rowsAside = 16
	maxRows   = 1000
)

// caughtUpWithin is how long a check waits for the history to read what is there.
const caughtUpWithin = 10 * time.Second

func (c *rowCheck) run(ctx context.Context) error {
	for after := trigger.Key(""); ; {
		chunk := make([]sinks.Known, 0, rowChunk)
		err := c.n.engine.Scan(ctx, c.partition, after, func(s *trigger.State) bool {
			chunk = append(chunk, sinks.Known{
				Key: s.Key, Status: s.Status, Seq: s.Seq, At: s.UpdatedAt, Born: s.CreatedAt,
			})
			return len(chunk) < rowChunk
		})
		if err != nil || len(chunk) == 0 {
			return left(err)
		}
		if why, err := c.caughtUp(ctx); err != nil || why != "" {
			c.out.RowsWhy = why
			return err
		}
		if err := c.check(ctx, chunk); err != nil {
			return err
		}
		after = chunk[len(chunk)-1].Key
	}
}

// caughtUp waits until the history has read the events that are there. It says why not.
func (c *rowCheck) caughtUp(ctx context.Context) (string, error) {
	end, err := c.n.engine.EndOf(ctx, c.n.names.Events(), c.partition)
	if err != nil {
		return "", fmt.Errorf("end of %s: %w", c.n.names.Events(), err)
	}
	for deadline := time.Now().Add(caughtUpWithin); ; wait.For(ctx, 50*time.Millisecond) {
		progress, err := c.n.history.Progress(ctx)
		if err != nil {
			return "the history does not answer: " + err.Error(), ctx.Err()
		}
		next := progress[c.partition].Next
		if next >= end {
			return "", nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Sprintf("the history is %d events behind; run it again when it has caught up", end-next),
				ctx.Err()
		}
	}
}

func (c *rowCheck) check(ctx context.Context, chunk []sinks.Known) error {
	type result struct {
		fault  sinks.RowFault
		mended bool
	}
	results := make([]result, len(chunk))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rowsAside)
	for i := range chunk {
		g.Go(func() (err error) {
			results[i].fault, results[i].mended, err = sinks.CheckRow(ctx, c.n.history, chunk[i],
				c.n.cfg.History.Retention, time.Now(), !c.dry)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("check rows of the history: %w", err)
	}
	c.out.Rows += int64(len(chunk))
	for i, r := range results {
		if r.fault != "" {
			c.found(&chunk[i], r.fault, r.mended)
		}
	}
	return nil
}

func (c *rowCheck) found(k *sinks.Known, fault sinks.RowFault, mended bool) {
	c.leaks++
	c.out.Found++
	if mended {
		c.out.Mended++
	}
	if c.leaks > maxRows {
		return
	}
	l := peer.Leak{Kind: string(fault), Mended: mended}
	switch {
	case fault == sinks.EventsMissing:
		l.Detail = "the history lacks events of the trigger: run `waterclock history rebuild`"
	case !mended && !c.dry:
		l.Detail = "the row could not be written again: run `waterclock history rebuild`"
	}
	name(&l, k.Key)
	c.out.Leaks = append(c.out.Leaks, l)
	if c.leaks <= 10 {
		c.n.log.Error("the history has a leak: please report it", "kind", fault, "trigger", k.Key, "partition",
			c.partition, "mended", mended)
	}
}
