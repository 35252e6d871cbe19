package pipeline

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

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
			p.applyControl(r)
		}
		if err != nil {
			return fmt.Errorf("%s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
		}
	}
	t.source = ""
	p.guardInputs(t, in)
	return nil
}

// applyCommand routes one record: skip, forward, reject or decide. Whatever it
// is, the partition moves on.
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
	origin, copied := p.origin(t, rec)
	if copied {
		return nil
	}
	if origin != nil { // facts and refusals name where it first stood
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

// forwardOrRefuse brings a record to its right partition, if it fits there with
// where it comes from; else it is refused here and now.
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

// origin says where a forwarded command first stood; nil for a direct one.
// again is true for a copy of one that was applied already.
func (p *Partition) origin(t *turn, rec *topics.Record) (origin *trigger.Origin, copied bool) {
	f, ok := claimed(rec, p.id, p.opts.Partitions)
	if !ok || !p.claims.genuine(rec.Topic, f, rec.Timestamp) {
		return nil, false
	}
	source := p.opts.mapKey(rec.Topic, f.Partition)
	if f.Offset <= applied(t.progress.Applied, source) && !p.writtenAnew(t, source, f) {
		return nil, true
	}
	t.progress.Applied = with(t.progress.Applied, source, f.Offset)
	t.guard.Applied = with(t.guard.Applied, source, topics.AppliedOrigin{Offset: f.Offset, Append: f.Append})
	return f.Origin(), false
}

// writtenAnew says that the source's log lost its end, and that f stands where
// another record was applied from: it was appended later than that one. A copy
// of what was applied never is, but for the clocks of its leaders.
func (p *Partition) writtenAnew(t *turn, source int32, f topics.Forward) bool {
	last, known := t.guard.Applied[source]
	if !known || last.Offset != applied(t.progress.Applied, source) || f.Append <= last.Append.Add(maxClockError) {
		return false
	}
	p.log.Warn("another partition's log lost its end: what was forwarded from there is new", "partition", f.Partition, "offset", f.Offset)
	return true
}

func applied(m map[int32]int64, partition int32) int64 {
	if o, ok := m[partition]; ok {
		return o
	}
	return -1
}

// with copies a small map and sets one element: the committed progress is not
// touched by a turn that may still fail.
func with[V any](m map[int32]V, k int32, v V) map[int32]V {
	next := make(map[int32]V, len(m)+1)
	for a, b := range m {
		next[a] = b
	}
	next[k] = v
	return next
}

// decideCommand decides a well-formed command.
func (p *Partition) decideCommand(ctx context.Context, t *turn, rec *topics.Record, cmd *trigger.Command) error {
	e, err := p.load(t, cmd.Key)
	if err != nil {
		return err
	}
	span := p.spanOf(t, rec, cmd)
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
	p.answer(t, rec, e, &out)
	return nil
}

func isDuplicate(out *trigger.Outcome) bool {
	return len(out.Facts) == 1 && out.Facts[0].Type == trigger.Duplicate
}

// admit checks what only the engine knows: the record's size, channels and
// limits. It judges what was decided, so that a repeat stays a duplicate and a
// replacement is no addition, however full it is.
func (p *Partition) admit(t *turn, cmd *trigger.Command, e *entry, out *trigger.Outcome) *trigger.Error {
	if out.Rejected != nil || !out.Changed {
		return nil
	}
	if !addsNothing[cmd.Op] {
		if err := p.tooLarge(out); err != nil {
			return err
		}
	}
	if cmd.Op != trigger.OpRegister || isDuplicate(out) {
		return nil
	}
	known := alive(e.status())
	if limit, err := p.quotas.admit(cmd.Key.Tenant(), cmd.From.Append, known); err != nil {
		t.overQuota = append(t.overQuota, limit)
		return err
	}
	if !known && p.opts.MaxPending > 0 && p.store.PendingCount() >= p.opts.MaxPending {
		return &trigger.Error{Code: trigger.CodeOverloaded, Msg: "the partition holds " + strconv.FormatInt(p.opts.MaxPending, 10) + " triggers, its limit (limits.max_pending)"}
	}
	return p.admitChannel(t, cmd.Spec.Channel)
}

// maxChannels bounds the channels that auto_create makes (docs/SEMANTICS.md).
const maxChannels = 100

func (p *Partition) admitChannel(t *turn, name string) *trigger.Error {
	if p.channels[name] || p.opts.Channels.Known(name) {
		return nil
	}
	if !p.opts.Channels.AutoCreate() {
		return &trigger.Error{Code: trigger.CodeUnknownChannel, Field: "channel", Msg: "channel " + strconv.Quote(name) + " is not configured, and channels.auto_create is off"}
	}
	if len(p.channels) >= maxChannels {
		return &trigger.Error{Code: trigger.CodeUnknownChannel, Field: "channel", Msg: "100 channels exist already; configure this one under channels." + name}
	}
	p.channels[name] = true
	t.progress.Channels = append(t.progress.Channels[:len(t.progress.Channels):len(t.progress.Channels)], name)
	return nil
}

// refuse rejects a record that could not be decoded, or that a gateway has
// refused already. op is 0 where it is not known.
func (p *Partition) refuse(ctx context.Context, t *turn, rec *topics.Record, op trigger.Op, refusal *trigger.Error, actor string) error {
	about, refusal := topics.RefusedKey(rec.Key, refusal)
	e := &entry{key: about}
	if key, err := trigger.ParseKey(rec.Key); err == nil {
		if e, err = p.load(t, key); err != nil {
			return err
		}
	}
	result(p.spanOf(t, rec, &trigger.Command{Op: op}), string(refusal.Code))
	out := p.machine.Reject(e.state, refusal, actor)
	p.applyDecision(ctx, t, e, &out)
	p.reject(ctx, t, rec, refusal)
	p.opts.Listener.Command(op.String(), string(refusal.Code))
	p.answer(t, rec, e, &out)
	return nil
}

// refuseStranger rejects a record of a trigger that this partition does not have.
func (p *Partition) refuseStranger(ctx context.Context, t *turn, rec *topics.Record, refusal *trigger.Error) {
	about, refusal := topics.RefusedKey(rec.Key, refusal)
	out := p.machine.Reject(nil, refusal, "")
	e := &entry{key: about}
	p.applyDecision(ctx, t, e, &out)
	p.reject(ctx, t, rec, refusal)
	p.opts.Listener.Command("", string(refusal.Code))
	p.answer(t, rec, e, &out)
}

// reject writes the original bytes to topic rejected.
func (p *Partition) reject(ctx context.Context, t *turn, rec *topics.Record, refusal *trigger.Error) {
	key, value, headers := topics.RejectedWithin(rec, refusal, p.most(p.opts.Names.Rejected()))
	p.produce(ctx, t, &kgo.Record{Topic: p.opts.Names.Rejected(), Partition: p.id, Key: key, Value: value, Headers: kgoHeaders(headers)})
}

// applyReceipt takes what a channel says became of a due event.
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
	if _, copied := p.origin(t, rec); copied {
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
	in.At = rec.Timestamp // what waits counts from the append, not from what the writer's clock says
	out := p.machine.Receive(e.state, in, t.now)
	p.applyDecision(ctx, t, e, &out)
	if out.Delivered != "" {
		t.delivered = append(t.delivered, delivery{out.Delivered, in.Outcome})
	}
	return nil
}

// record is a record as topics see it.
func record(r *kgo.Record) *topics.Record {
	rec := recordWith(r, make([]trigger.Header, 0, len(r.Headers)))
	return &rec
}

// recordWith is record with room for the headers.
func recordWith(r *kgo.Record, headers []trigger.Header) topics.Record {
	for _, h := range r.Headers {
		headers = append(headers, trigger.Header(h))
	}
	return topics.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: trigger.At(r.Timestamp), Key: r.Key, Value: r.Value, Headers: headers}
}

// kgoHeaders are the same headers as kgo spells them.
func kgoHeaders(headers []trigger.Header) []kgo.RecordHeader {
	return appendHeaders(make([]kgo.RecordHeader, 0, len(headers)), headers)
}

func appendHeaders(out []kgo.RecordHeader, headers []trigger.Header) []kgo.RecordHeader {
	for _, h := range headers {
		out = append(out, kgo.RecordHeader(h))
	}
	return out
}

func asError(err error) *trigger.Error {
	if e, ok := err.(*trigger.Error); ok {
		return e
	}
	return &trigger.Error{Code: trigger.CodeInvalid, Msg: err.Error()}
}
