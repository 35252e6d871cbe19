package pipeline

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A failed delivery is retried here. Its receipt arms a timer for the next attempt
// (trigger/receive.go, trigger/retry.go), and the timer comes out of the wheel like any
// other.

// applyReceipt decides one receipt.
func (p *Partition) applyReceipt(ctx context.Context, t *turn, r *kgo.Record) error {
	if r.Offset < t.progress.NextReceipt {
		return nil
	}
	t.progress.NextReceipt = r.Offset + 1
	if r.Attrs.IsControl() {
		return nil
	}
	if home, misplaced := homeOf(r, p.id, p.opts.Partitions); misplaced {
		return p.forwardOrRefuse(ctx, t, r, home)
	}
	rec := p.scratch.input(r)
	if _, copied := p.claims.origin(t, rec); copied {
		return nil
	}
	t.source = topics.Source(r.Topic, r.Partition, r.Offset)
	receipt, err := topics.DecodeReceipt(rec)
	if err != nil {
		return p.refuse(ctx, t, rec, 0, asError(err), "")
	}
	e, err := p.load(t, receipt.Key)
	if err != nil {
		return err
	}
	in := receipt.Input()
	in.At = rec.Timestamp // waiting counts from the append; the writer's clock may be wrong
	out := p.machine.Receive(e.state, in, t.now)
	p.applyDecision(ctx, t, e, &out)
	if out.Delivered != "" {
		t.delivered = append(t.delivered, delivery{out.Delivered, in.Outcome})
	}
	return nil
}

// delivery is the outcome that a receipt reported.
type delivery struct {
	channel string
	outcome trigger.ReceiptOutcome
}
