package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// emitTime bounds how long a turn fires. A batch is sized to take less, but a long run of
// missed occurrences takes milliseconds to count.
const emitTime = 40 * time.Millisecond

// emit fires every due timer. The state decides: a timer that was cancelled or moved after
// it was armed still comes out of the wheel, and does nothing.
func (p *Partition) emit(ctx context.Context, t *turn, in fair.Taken) error {
	p.step(StepEmit)
	begin := time.Now()
	defer func() { t.firing.work = time.Since(begin) }()
	free := len(in.Due) - in.Paced
	for i, d := range in.Due {
		if i > 0 && time.Since(begin) > emitTime {
			p.putBack(t, in.Due[i:], i-free)
			return nil
		}
		if err := p.emitOne(ctx, t, d, i >= free); err != nil {
			return err
		}
		t.firing.timers++
	}
	return nil
}

// putBack leaves timers to the next turn. The first -paced of them, if paced is negative,
// do not go at the pacer's rate.
func (p *Partition) putBack(t *turn, rest []statestore.DueKey, paced int) {
	for i, d := range rest {
		if i+paced >= 0 {
			p.timers.pace(d)
		} else {
			p.timers.ready.Push(d, t.now)
		}
	}
}

// emitOne fires one timer. A timer that goes at the pacer's rate fires only if paced is
// set.
func (p *Partition) emitOne(ctx context.Context, t *turn, d statestore.DueKey, paced bool) error {
	priority, key, kind, occurrence, ok := statestore.ParseRef(d.Ref)
	if !ok {
		panic(fmt.Sprintf("pipeline: the wheel holds an invalid ref: %q", d.Ref))
	}
	e, err := p.loadDue(t, key, d)
	if err != nil || e == nil || e.state == nil {
		return err
	}
	tm := trigger.Timer{Due: d.Due, Priority: priority, Kind: kind, Occurrence: occurrence}
	if d.Due > p.consumer.barrier.Receipts.Through() && e.state.WaitsForReceipt(tm) {
		p.timers.ready.Hold(d)
		return nil
	}
	if !paced && p.paces(e.state, tm, t.now) {
		p.timers.pace(d)
		return nil
	}
	out := p.machine.Due(e.state, tm, t.now)
	if len(out.Fires) > 0 {
		located := p.destinations.located(&out.Fires[0])
		if u := p.destinations.unhealthy(ctx, &out.Fires[0]); u != nil {
			out = p.putOff(e.state, tm, t.now, u)
		} else if reason, err := p.tooLargeToFire(t, out.Fires); err != nil {
			return err
		} else if reason != "" {
			out = p.machine.PutOff(e.state, tm, t.now, reason, false)
		} else if !located { // its events name the place, which is known only now
			out = p.machine.Due(e.state, tm, t.now)
		}
	}
	p.applyDecision(ctx, t, e, &out)
	if out.TimedOut != "" {
		t.timedOut = append(t.timedOut, out.TimedOut)
	}
	t.fires += len(out.Fires)
	for i := range out.Fires {
		f := &out.Fires[i]
		p.opts.Listener.Fired(f.Channel, f.Spec.Priority, t.now.Sub(d.Due))
		t.fired = append(t.fired, lateness.Fired{Tenant: f.Key.Tenant(), Channel: f.Channel, Late: t.now.Sub(d.Due)})
	}
	return nil
}

// putOff leaves a timer to a later turn, because its due topic is unhealthy.
func (p *Partition) putOff(s *trigger.State, tm trigger.Timer, now trigger.Instant,
	u *output.Unhealthy,
) trigger.Outcome {
	return p.machine.PutOff(s, tm, now, u.Reason, u.Silent)
}

// paces reports whether a timer goes at the pacer's rate.
func (p *Partition) paces(s *trigger.State, tm trigger.Timer, now trigger.Instant) bool {
	return p.opts.CatchUpRate > 0 && p.machine.CatchingUp(s, tm, now)
}

// loadDue finds the state of a due timer, in the overlay or at its home in the due index.
// Reading the index in due order is one scan. It returns nil if the timer does not exist.
func (p *Partition) loadDue(t *turn, key trigger.Key, d statestore.DueKey) (*entry, error) {
	if e := t.overlay[key]; e != nil {
		return e, nil
	}
	value, ok, err := t.reader.Get(d.Due, d.Ref)
	if err != nil {
		return nil, fmt.Errorf("get due %q: %w", key, err)
	}
	if !ok {
		return nil, nil
	}
	if len(value) == 0 {
		return p.load(t, key)
	}
	return p.enter(t, key, bytes.Clone(value))
}

// send writes a due event to its channel's topic.
func (p *Partition) send(ctx context.Context, t *turn, f *trigger.Fire) {
	topic, partition := p.destinations.of(f)
	p.tracer.fire(t, f, topic)
	r := p.scratch.record()
	r.Topic, r.Partition, r.Value = topic, partition, topics.DueValue(f)
	r.Key, r.Headers = p.scratch.due(f, p.dueEnv(t))
	p.produce(ctx, t, r)
}

func (p *Partition) dueEnv(t *turn) topics.DueEnv {
	pr := &t.progress
	return topics.DueEnv{Cluster: p.opts.Cluster, Basis: topics.Basis(pr.Term, pr.Seq, pr.NextCommand, pr.NextReceipt,
		pr.NextControl)}
}

// deadLetter is what listeners hear of a dead letter.
type deadLetter struct{ channel, code string }

// deadLetter writes an occurrence that nobody could deliver to topic dead-letter. It is the
// due event without its basis, which is not kept.
func (p *Partition) deadLetter(ctx context.Context, t *turn, d *trigger.DeadLetter) {
	t.dead = append(t.dead, deadLetter{d.Fire.Channel, d.Code})
	key, value, headers := topics.DeadLetterWithin(d, topics.DueEnv{Cluster: p.opts.Cluster},
		p.kafka.sizes.most(p.opts.Names.DeadLetter()))
	p.produce(ctx, t, &kgo.Record{
		Topic: p.opts.Names.DeadLetter(), Partition: p.id, Key: key, Value: value,
		Headers: kafkarec.Headers(headers),
	})
}
