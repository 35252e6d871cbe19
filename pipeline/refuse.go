package pipeline

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// refuse rejects a record that cannot be decoded, or that a gateway has refused already. op
// is 0 if it is not known.
func (p *Partition) refuse(ctx context.Context, t *turn, rec *topics.Record, op trigger.Op, refusal *trigger.Error,
	actor string,
) error {
	about, refusal := topics.RefusedKey(rec.Key, refusal)
	e := &entry{key: about}
	if key, err := trigger.ParseKey(rec.Key); err == nil {
		if e, err = p.load(t, key); err != nil {
			return err
		}
	}
	result(p.tracer.spanOf(t, rec, &trigger.Command{Op: op}), string(refusal.Code))
	out := p.machine.Reject(e.state, refusal, actor)
	p.applyDecision(ctx, t, e, &out)
	p.reject(ctx, t, rec, refusal)
	p.opts.Listener.Command(op.String(), string(refusal.Code))
	t.answer(rec, e, &out)
	return nil
}

// refuseStranger rejects a record of a trigger that belongs to another partition and cannot
// go there.
func (p *Partition) refuseStranger(ctx context.Context, t *turn, rec *topics.Record, refusal *trigger.Error) {
	about, refusal := topics.RefusedKey(rec.Key, refusal)
	out := p.machine.Reject(nil, refusal, "")
	e := &entry{key: about}
	p.applyDecision(ctx, t, e, &out)
	p.reject(ctx, t, rec, refusal)
	p.opts.Listener.Command("", string(refusal.Code))
	t.answer(rec, e, &out)
}

// reject writes the original bytes to topic rejected.
func (p *Partition) reject(ctx context.Context, t *turn, rec *topics.Record, refusal *trigger.Error) {
	key, value, headers := topics.RejectedWithin(rec, refusal, p.kafka.sizes.most(p.opts.Names.Rejected()))
	p.produce(ctx, t, &kgo.Record{
		Topic: p.opts.Names.Rejected(), Partition: p.id, Key: key, Value: value,
		Headers: kafkarec.Headers(headers),
	})
}

func asError(err error) *trigger.Error {
	e := &trigger.Error{}
	if errors.As(err, &e) {
		return e
	}
	return &trigger.Error{Code: trigger.CodeInvalid, Msg: err.Error()}
}
