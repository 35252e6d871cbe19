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
	// Options configure a world. New makes it simulated and quiet.
	Options = pipelinetest.Options
	// Node is one process of a world.
	Node = pipelinetest.Node
)

// World is a simulated world whose client tracks its acknowledgements. The checks require
// everything that was acknowledged.
type World struct {
	*pipelinetest.World

	// Disputed makes the checker judge what it leaves out otherwise: series with named calendars, and
	// late firings that no event told of.
	Disputed bool
	// Epsilon bounds the error of a node's clock. A cancel acknowledged less than this before the
	// due time may come too late, and a due event may be this early. 0: clocks are right.
	Epsilon time.Duration
	// MaxLate bounds how late a due event may be. 0: no bound.
	MaxLate time.Duration
	// Previewed is how many occurrences of a series preview returns: more than can occur in this
	// world.
	Previewed int

	opts Options

	mu     sync.Mutex
	wishes map[string]*wish
	series map[string]*promise
	free   map[string]bool // triggers that only the checker judges
	acks   []check.Ack     // commands that Kafka has acknowledged
	open   []span

	calendars map[string]calendar.DateSet // as topic control has them
	misfires  map[string][]topics.Event   // as topic events had them at the first call of Misfires

	compacted  bool
	foreigners int // transactions of other producers
	stalled    []string
}

// New makes a world. It must be called inside a synctest bubble. The world ends with the test.
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

// CompactState makes the broker compact, including tombstones. No node may run. After that, turns
// can no longer be compared with their manifests.
func (w *World) CompactState() {
	w.T.Helper()
	w.compacted = true
	w.Cluster.Compact()
	time.Sleep(time.Second)
	w.Cluster.Compact()
}
