// Package heap decides how far the Go heap grows before it is collected.
//
// GOGC is a share of everything that lives. Most of that are caches and
// memtables of Pebble, which without cgo lie on the Go heap: a growth that
// suits the rest would let them take three times their bounds. The collector
// does not look into them, and a collection costs by what it looks at. So the
// heap grows by a multiple of that, whatever lies beside.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// growth is by how many times what the collector looks at the heap grows: much
	// garbage is made around little that stays. Four times cost 5 % less CPU at 10,000
	// registers/s, and took 70 MB more.
	growth = 2
	// LeastGrowth keeps a heap of caches from being collected all the time.
	LeastGrowth = 64 << 20
	// LeastGrowthOfDev is for a small machine that dev shares with others. It costs about 2 % more CPU.
	LeastGrowthOfDev = 48 << 20
	// mostPercent bounds both by what lives, and leastPercent too.
	mostPercent, leastPercent = 200, 5
)

var once sync.Once

// Manage sets GOGC of this process after every collection from now on; a GOGC
// in its environment is used instead. The heap grows by at least `least` bytes, as
// the first caller wants it.
func Manage(least uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	once.Do(func() {
		m := newManager(least)
		m.set()
		collected := make(chan struct{}, 1)
		afterEach(collected)
		go func() {
			for range collected {
				m.set()
			}
		}()
	})
}

// afterEach tells of every collection: an object that nobody holds is
// finalized in each.
func afterEach(collected chan<- struct{}) {
	runtime.SetFinalizer(&sentinel{collected}, func(s *sentinel) {
		afterEach(s.collected)
		select {
		case s.collected <- struct{}{}:
		default: // it has not looked at the one before
		}
	})
}

type sentinel struct{ collected chan<- struct{} }

type manager struct {
	least   uint64 // bytes of growth
	samples []metrics.Sample
	percent int // as it was set
}

func newManager(least uint64) *manager {
	return &manager{least: least, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"},
	}}
}

// set sets the percentage that fits the last collection. A change of less than
// an eighth is left.
func (m *manager) set() {
	metrics.Read(m.samples)
	p := percent(m.samples[0].Value.Uint64(), m.samples[1].Value.Uint64(), m.least)
	if 8*max(p-m.percent, m.percent-p) < m.percent {
		return
	}
	m.percent = p
	debug.SetGCPercent(p)
}

// percent is the GOGC that lets the heap grow as it should. Go grows it by as
// much again of stacks and globals, which are little here.
func percent(live, scanned, least uint64) int {
	return int(max(min(100*max(growth*scanned, least)/max(live, 1), mostPercent), leastPercent))
}
