package chaos

import "time"

// fault is one way to break the cluster. strike breaks it, and returns what
// heals it; after a time between least and most it is healed. One that returns
// nil has healed itself.
type fault struct {
	name        string // a sentence
	needs       needs
	least, most time.Duration
	strike      func(w *world) (heal func())
}

// needs are what not every machine has.
type needs int

const (
	root      needs = 1 << iota // namespaces, small disks
	cassandra                   // a history
)

// faults are all there are.
var faults = concat(processFaults, networkFaults, diskFaults, brokerFaults, clientFaults, historyFaults)

func concat(lists ...[]*fault) (all []*fault) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// anyEngine draws a victim.
func (w *world) anyEngine() *engine { return w.engines[w.rng.IntN(len(w.engines))] }

// anyNode draws a broker, from 1.
func (w *world) anyNode() int { return 1 + w.rng.IntN(nodes) }

// for a while, do something again and again.
func (w *world) during(long time.Duration, do func()) {
	for begin := time.Now(); time.Since(begin) < long; {
		do()
	}
}
