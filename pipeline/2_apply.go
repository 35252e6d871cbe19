package pipeline

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// apply decides commands and receipts in the order of their logs.
func (p *Partition) apply(ctx context.Context, t *turn, in input) error {
	p.step(StepApply)
	p.rejectStuck(ctx, t)
	commands, receipts := p.opts.Names.Commands(), p.opts.Names.Receipts()
	for _, r := range in.records {
		if u := in.unreadable[r]; u != nil {
			p.applyUnreadable(ctx, t, u)
			continue
		}
		var err error
		switch r.Topic {
		case commands:
			err = p.applyCommand(ctx, t, r)
		case receipts:
			err = p.applyReceipt(ctx, t, r)
		case p.opts.Names.Control():
			p.replan = p.control.apply(r, p.replan)
			p.machine.Timetable = p.control.timetable
		}
		if err != nil {
			return fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
	t.source = ""
	if len(in.records) > 0 {
		p.timers.atOnce = t.atOnce
	}
	t.guardInputs(in, commands, receipts)
	return nil
}

// applyCommand skips, forwards, rejects or decides one record. In every case the partition
// moves past it.
func (p *Partition) applyCommand(ctx context.Context, t *turn, r *kgo.Record) error {
	if r.Offset < t.progress.NextCommand {
		return nil
	}
	t.progress.NextCommand = r.Offset + 1
	if r.Attrs.IsControl() {
		return nil
	}
	t.commands++
	if home, misplaced := homeOf(r, p.id, p.opts.Partitions); misplaced {
		return p.forwardOrRefuse(ctx, t, r, home)
	}
	rec := p.scratch.input(r)
	origin, copied := p.claims.origin(t, rec)
	if copied {
		return nil
	}
	if origin != nil { // facts and refusals name its first append
		rec.Partition, rec.Offset = origin.Partition, origin.Offset
	}
	t.source = topics.Source(rec.Topic, rec.Partition, rec.Offset)
	if refusal, ok := topics.Refused(rec); ok {
		return p.refuse(ctx, t, rec, 0, refusal.Err(), refusal.Actor)
	}
	cmd, err := topics.DecodeCommand(rec, p.opts.Limits, origin)
	if err != nil {
		return p.refuse(ctx, t, rec, topics.OpOf(rec, p.opts.Limits), asError(err), "")
	}
	return p.decideCommand(ctx, t, rec, cmd)
}

// forwardOrRefuse forwards a record to its right partition. It refuses the record at once
// if the headers that say where it comes from make it too large.
func (p *Partition) forwardOrRefuse(ctx context.Context, t *turn, r *kgo.Record, home int32) error {
	if recordBytes(r) > maxForwarded {
		rec := p.scratch.input(r)
		t.source = topics.Source(rec.Topic, rec.Partition, rec.Offset)
		p.refuseStranger(ctx, t, rec, errNotForwarded)
		return nil
	}
	p.forward.push(r, home)
	p.opts.Listener.Forwarded(1)
	return nil
}

// rejectStuck records what can never be forwarded. It is part of the turn, like the position
// behind those records.
func (p *Partition) rejectStuck(ctx context.Context, t *turn) {
	refused, lost := p.forward.takeStuck()
	for _, r := range refused {
		t.source = topics.Source(r.Topic, r.Partition, r.Offset)
		p.refuseStranger(ctx, t, kafkarec.Of(r), errNotForwarded)
	}
	for i := range lost {
		rec, refusal := lost[i].rejection(p.id)
		p.reject(ctx, t, rec, refusal)
	}
	t.lost = append(t.lost, lost...)
}

// decideCommand decides a well-formed command.
func (p *Partition) decideCommand(ctx context.Context, t *turn, rec *topics.Record, cmd *trigger.Command) error {
	e, err := p.load(t, cmd.Key)
	if err != nil {
		return err
	}
	span := p.tracer.spanOf(t, rec, cmd)
	out := p.machine.Apply(e.state, cmd, t.now)
	if err := p.admit(t, cmd, e, &out); err != nil {
		out = p.machine.Reject(e.state, err, cmd.Actor)
	}
	p.applyDecision(ctx, t, e, &out)
	became := "ok"
	if out.Rejected != nil {
		became = string(out.Rejected.Code)
		p.reject(ctx, t, rec, out.Rejected)
	}
	result(span, became)
	p.opts.Listener.Command(cmd.Op.String(), became)
	t.answer(rec, e, &out)
	return nil
}
