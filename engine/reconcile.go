package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
)

// Reconciled is what one partition's reconciliation has found and done.
type Reconciled struct {
	pipeline.AuditReport
	Mended int // leaks that turns have mended from the states
}

// Reconcile compares the timers of an owned partition with its states. Turns mend what
// differs, unless dry is set. Leaks that are too many to list take another call.
func (e *Engine) Reconcile(ctx context.Context, partition int32, dry bool) (r Reconciled, err error) {
	p, err := e.partition(partition)
	if err != nil {
		return r, err
	}
	if r.AuditReport, err = p.Audit(ctx, e.process.OverdueBound); err != nil {
		return r, fmt.Errorf("audit partition %d: %w", partition, err)
	}
	if len(r.Leaks) == 0 {
		return r, nil
	}
	e.process.Listener.Leaked(len(r.Leaks) + int(r.More))
	for _, l := range r.Leaks[:min(len(r.Leaks), leaksLogged)] {
		e.process.Logger.Error("the store has a leak: please report it", "partition", partition, "kind", l.Kind,
			"trigger", l.Key, "due", l.Timer.Due, "occurrence", l.Timer.Occurrence, "error", l.Error)
	}
	if dry {
		return r, nil
	}
	if err := p.Mend(ctx, r.Leaks); err != nil {
		return r, fmt.Errorf("mend partition %d: %w", partition, err)
	}
	r.Mended = len(r.Leaks)
	e.process.Logger.Warn("mended leaks of the store from the states", "partition", partition, "leaks", r.Mended,
		"more", r.More)
	return r, nil
}

// leaksLogged bounds the leaks of one partition that are logged one by one.
const leaksLogged = 10

// reconcile does so for all partitions of this process, one after another, at an interval.
func (e *Engine) reconcile(ctx context.Context) {
	wait.Every(ctx, e.process.ReconcileInterval, func() {
		for _, s := range e.Partitions() {
			start := time.Now()
			r, err := e.Reconcile(ctx, s.Partition, false)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, pipeline.ErrNotOwner): // its next owner does it
			case err != nil:
				e.process.Logger.Warn("the timers of a partition were not compared with its states", "partition",
					s.Partition, "error", err)
			default:
				e.process.Logger.Debug("compared timers with states", "partition", s.Partition, "triggers", r.Triggers,
					"timers", r.Timers, "leaks", len(r.Leaks)+int(r.More), "overdue", r.Overdue, "took", time.Since(start))
			}
		}
	})
}
