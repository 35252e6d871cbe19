package sim

import (
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

type (
	// Options of a world; New makes it a simulated and a quiet one.
	Options = pipelinetest.Options
	// Node is one process of a world.
	Node = pipelinetest.Node
)

// World is a simulated world whose client keeps account: what it was
// acknowledged, the checks demand.
type World struct {
	*pipelinetest.World

	// Epsilon is how far a node's clock may be trusted to be right: a cancel
	// acknowledged less than this before the due time may come too late, and a
	// due event may be this early. 0: clocks are right.
	Epsilon time.Duration
	// MaxLate is how late a due event may be. 0: however late.
	MaxLate time.Duration
	// Previewed is how many occurrences of a series are asked of preview, more
	// than it may have in this world.
	Previewed int

	opts Options

	mu     sync.Mutex
	wishes map[string]*wish
	series map[string]*promise
	free   map[string]bool // triggers that the checker alone judges
	acks   []check.Ack     // commands that Kafka has acknowledged
	open   []span

	calendars map[string]calendar.DateSet // as topic control has them
	misfires  map[string][]topics.Event   // as topic events had them when first asked

	compacted  bool
	foreigners int // transactions of other producers
}

// New makes a world. It must be called inside a synctest bubble and ends with
// the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	o.Simulated, o.Quiet = true, true
	w := &World{
		World: pipelinetest.New(t, o), Previewed: 10_000, opts: o, wishes: map[string]*wish{},
		series: map[string]*promise{},
		free:   map[string]bool{}, calendars: map[string]calendar.DateSet{},
	}
	w.OnSent(w.acknowledged)
	return w
}

// CompactState lets the broker compact, tombstones and all. No node may run.
// Turns cannot be held against their manifests any more after that.
func (w *World) CompactState() {
	w.T.Helper()
	w.compacted = true
	w.Cluster.Compact()
	time.Sleep(time.Second)
	w.Cluster.Compact()
}
