package pipeline

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// emit lets every due timer go. The state decides: what was cancelled or moved
// since it was armed comes out of the wheel all the same, and does nothing.
func (p *Partition) emit(t *turn, due []statestore.DueKey) error {
	p.opts.Listener.Step(p.id, "emit")
	for _, d := range due {
		if err := p.emitOne(t, d); err != nil {
			return err
		}
	}
	return nil
}

func (p *Partition) emitOne(t *turn, d statestore.DueKey) error {
	priority, key, kind, occurrence, ok := statestore.ParseRef(d.Ref)
	if !ok {
		panic(fmt.Sprintf("pipeline: wheel holds a ref that is none: %q", d.Ref))
	}
	e, err := p.loadDue(t, key, d)
	if err != nil || e == nil || e.state == nil {
		return err
	}
	tm := trigger.Timer{Due: d.Due, Priority: priority, Kind: kind, Occurrence: occurrence}
	out := p.machine.Due(e.state, tm, t.now)
	if len(out.Fires) > 0 {
		if s := p.ailing(t.ctx, &out.Fires[0]); s != nil {
			out = p.machine.Postpone(e.state, tm, t.now, s.reason)
		}
	}
	p.perform(t, e, &out)
	t.fires += len(out.Fires)
	for i := range out.Fires {
		p.opts.Listener.Fired(out.Fires[i].Channel, out.Fires[i].Spec.Priority, t.now.Sub(d.Due))
	}
	return nil
}

// loadDue finds the state of a due timer: in the overlay, else at its home in
// the due index, where reading in due order is one scan. nil: no such timer.
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
	return p.enter(t, key, value)
}

// send writes a due event to its channel's topic.
func (p *Partition) send(t *turn, f *trigger.Fire) {
	settings := p.opts.Channels.Settings(f.Channel)
	key, value, headers := topics.DueRecord(f, p.dueEnv(t))
	r := &kgo.Record{Topic: p.dueTopic(&settings, f), Partition: p.id, Key: key, Value: value, Headers: kgoHeaders(headers)}
	if settings.ByKey {
		if n, err := p.dueTopics.ensure(t.ctx, r.Topic, true); err == nil { // known: ailing has looked
			r.Partition = topics.Partition(key, n)
		}
	}
	p.produce(t, r)
}

func (p *Partition) dueTopic(c *ChannelSettings, f *trigger.Fire) string {
	if c.HighLane && f.Spec.Priority == trigger.High {
		return topics.HighLane(c.Topic)
	}
	return c.Topic
}

func (p *Partition) dueEnv(t *turn) topics.DueEnv {
	pr := &t.progress
	return topics.DueEnv{Cluster: p.opts.Cluster, Basis: topics.Basis(pr.Term, pr.Seq, pr.NextCommand, pr.NextReceipt, pr.NextControl)}
}

// bury writes an occurrence nobody could deliver to topic dead-letter.
func (p *Partition) bury(t *turn, d *trigger.DeadLetter) {
	key, value, headers := topics.DeadLetterRecord(d, p.dueEnv(t))
	p.produce(t, &kgo.Record{Topic: p.opts.Names.DeadLetter(), Partition: p.id, Key: key, Value: value, Headers: kgoHeaders(headers)})
}
