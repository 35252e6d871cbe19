package engine

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
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

// EndOf is the end of the committed records of a partition.
func (e *Engine) EndOf(ctx context.Context, topic string, partition int32) (int64, error) {
	return kafkapart.ListOffset(ctx, e.cl, topic, partition, kafkapart.ReadCommitted, kafkapart.Latest)
}

// OffsetAt is the offset of a partition's first record that was appended at an instant or
// later; -1 if there is none. Instant 0 is where its log begins.
func (e *Engine) OffsetAt(ctx context.Context, topic string, partition int32, at trigger.Instant) (int64, error) {
	timestamp := int64(at)
	if at == 0 {
		timestamp = kafkapart.Earliest
	}
	return kafkapart.ListOffset(ctx, e.cl, topic, partition, kafkapart.ReadCommitted, timestamp)
}

// leaksLogged bounds the leaks of one partition that are logged one by one.
const leaksLogged = 10
