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
}

// keepDecided is how long a partition keeps outcomes. Gateways ask within seconds.
// Options.OutcomeMemory bounds them, too.
const keepDecided = time.Minute

// decided keeps the outcomes of the latest commands, by their first append. A caller that
// comes too late reads the trigger instead.
type decided struct {
	mu    sync.Mutex
	by    map[origin]Decided
	order []keptDecision // oldest first
	bytes int
	most  int // in bytes
}

// keptDecision is an outcome in the order of arrival.
type keptDecision struct {
	at    origin
	since time.Time
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
	decided Decided
}

func (d *decided) add(decisions []decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range decisions {
		r := keptDecision{o.at, now, o.decided.size()}
		d.by[o.at] = o.decided
		d.order, d.bytes = append(d.order, r), d.bytes+r.bytes
	}
	n := 0
	for n < len(d.order) && (d.bytes > d.most || now.Sub(d.order[n].since) > keepDecided) {
		delete(d.by, d.order[n].at)
		d.bytes -= d.order[n].bytes
		n++
	}
	d.order = d.order[n:]
}

// size is about how much memory an outcome takes, with its place in the map.
func (d *Decided) size() int {
	n := 256 + 16*len(d.Facts)
	if d.State != nil {
		n += d.State.SummarySize()
	}
	if d.Rejected != nil {
		n += len(d.Rejected.Field) + len(d.Rejected.Msg)
	}
	return n
}

func (d *decided) get(at origin) (Decided, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.by[at]
	return o, ok
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
	d := Decided{Rejected: out.Rejected}
	if e.state != nil {
		d.State = e.state.Summary()
	}
	for _, f := range out.Facts {
		d.Facts = append(d.Facts, f.Type)
	}
	t.decisions = append(t.decisions, decision{origin{rec.Partition, rec.Offset}, d})
}
