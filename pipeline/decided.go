package pipeline

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Decided is the outcome of one command, as a gateway answers its caller.
type Decided struct {
	State    *trigger.State // its Summary, as the command left it; nil for an unknown key
	Rejected *trigger.Error
	Facts    []trigger.FactType
	Behind   time.Duration // of the tenant, when the gateway asked: View.Behind
}

// keepDecided is how long a partition keeps outcomes. Gateways ask within seconds.
// Options.OutcomeMemory bounds them, too.
const keepDecided = time.Minute

// decided keeps the outcomes of the latest commands, by their first append. A caller that
// comes too late reads the trigger instead.
type decided struct {
	mu    sync.Mutex
	by    map[origin]outcome
	order []keptOutcome // oldest first
	began time.Time
	bytes int
	most  int // in bytes
}

// outcome is a Decided as it is kept: packed, since a flood keeps tens of thousands of them.
// A trigger.State takes five times as much, and the garbage collector looks into it.
type outcome struct {
	packed   string // the key, and its summary as topics encodes states
	key      int    // length of the key
	known    bool   // there is a state
	facts    []trigger.FactType
	rejected *trigger.Error
}

// keptOutcome is an outcome in the order of arrival.
type keptOutcome struct {
	at    origin
	since time.Duration // after decided.began
	bytes int
}

// origin is where a command was first appended. Its producer knows that place.
type origin struct {
	partition int32
	offset    int64
}

// decision is an outcome that waits for the commit of its turn.
type decision struct {
	at      origin
	outcome outcome
}

func (d *decided) add(decisions []decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began.IsZero() {
		d.began = now
	}
	since := now.Sub(d.began)
	for _, o := range decisions {
		r := keptOutcome{o.at, since, o.outcome.size()}
		d.by[o.at] = o.outcome
		d.order, d.bytes = append(d.order, r), d.bytes+r.bytes
	}
	n := 0
	for n < len(d.order) && (d.bytes > d.most || since-d.order[n].since > keepDecided) {
		delete(d.by, d.order[n].at)
		d.bytes -= d.order[n].bytes
		n++
	}
	d.order = d.order[n:]
}

// size is about how much memory an outcome takes, with its place in the map.
func (o *outcome) size() int {
	n := 192 + len(o.packed) + 16*len(o.facts)
	if o.rejected != nil {
		n += len(o.rejected.Field) + len(o.rejected.Msg)
	}
	return n
}

func (d *decided) get(at origin) (Decided, bool) {
	d.mu.Lock()
	o, ok := d.by[at]
	d.mu.Unlock()
	if !ok {
		return Decided{}, false
	}
	out, err := o.unpack()
	return out, err == nil
}

// packer packs outcomes in memory that it uses again.
type packer struct {
	summary trigger.State
	buf     []byte
}

// pack packs the outcome of a command. s is the trigger as the command left it; nil for an
// unknown key.
func (p *packer) pack(s *trigger.State, out *trigger.Outcome) (o outcome, err error) {
	o.rejected = out.Rejected
	o.facts = make([]trigger.FactType, len(out.Facts))
	for i := range out.Facts {
		o.facts[i] = out.Facts[i].Type
	}
	if s == nil {
		return o, nil
	}
	s.Summarize(&p.summary)
	b, err := topics.AppendState(append(p.buf[:0], s.Key...), &p.summary)
	if err != nil {
		return outcome{}, err
	}
	p.buf, o.packed, o.key, o.known = b, string(b), len(s.Key), true
	return o, nil
}

func (o *outcome) unpack() (d Decided, err error) {
	d.Rejected, d.Facts = o.rejected, o.facts
	if o.known {
		d.State, err = topics.DecodeState(trigger.Key(o.packed[:o.key]), []byte(o.packed[o.key:]))
	}
	return d, err
}

// answer notes the outcome of a command that a gateway will ask for.
func (t *turn) answer(rec *topics.Record, e *entry, out *trigger.Outcome) {
	asked := false
	for _, h := range rec.Headers {
		asked = asked || h.Key == topics.HeaderAsk
	}
	if !asked {
		return
	}
	if o, err := t.packer.pack(e.state, out); err == nil { // else the caller reads the trigger
		t.decisions = append(t.decisions, decision{origin{rec.Partition, rec.Offset}, o})
	}
}
