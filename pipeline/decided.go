package pipeline

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Decided is what became of one command: what a gateway answers a caller.
type Decided struct {
	State    *trigger.State // its Summary, as the command left it; nil for an unknown key
	Rejected *trigger.Error
	Facts    []trigger.FactType
}

// keepDecided is how long a partition remembers outcomes for gateways, which ask
// within seconds. Options.OutcomeMemory bounds them, too.
const keepDecided = time.Minute

// decided remembers the outcomes of the latest commands by their first
// append. It is a convenience with a bound: what it lost can be read from the
// trigger itself.
type decided struct {
	mu    sync.Mutex
	by    map[origin]Decided
	order []keptDecision // oldest first
	bytes int
	most  int // of bytes
}

// keptDecision is an outcome in the order they came.
type keptDecision struct {
	at    origin
	since time.Time
	bytes int
}

// origin is where a command was first appended: what its producer knows.
type origin struct {
	partition int32
	offset    int64
}

// decision waits in the turn until it is committed.
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

// size is about what an outcome takes in memory, with its place in the map.
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

// answer notes the outcome of a command somebody will ask for.
func (p *Partition) answer(t *turn, rec *topics.Record, e *entry, out *trigger.Outcome) {
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
