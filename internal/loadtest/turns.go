package loadtest

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/pipeline"
)

// turnParts sums up what the time of turns goes to. Each partition's steps come from a goroutine of its own.
type turnParts struct {
	mu    sync.Mutex
	last  map[int32]moment
	spent map[string]time.Duration
	turns int
}

type moment struct {
	step pipeline.Step
	at   time.Time
}

// partOf names what begins with a step, up to the next one.
var partOf = map[pipeline.Step]string{
	pipeline.StepPoll:      "wait",   // for something to do, and for the turn's slot
	pipeline.StepBegin:     "decide", // and encode: what a turn does without a broker
	pipeline.StepApply:     "decide",
	pipeline.StepAdvance:   "decide",
	pipeline.StepEmit:      "decide",
	pipeline.StepFlush:     "produce", // until brokers have acknowledged all records
	pipeline.StepEnd:       "end",     // EndTransaction
	pipeline.StepCommitted: "store",   // Pebble's batch
	pipeline.StepStored:    "report",  // to readers, metrics, and the next turn
}

func newTurnParts() *turnParts {
	return &turnParts{last: map[int32]moment{}, spent: map[string]time.Duration{}}
}

// step is told of every step of every partition.
func (p *turnParts) step(partition int32, step pipeline.Step) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	was, known := p.last[partition]
	p.last[partition] = moment{step, now}
	if !known {
		return // it began before
	}
	if part, ofTurn := partOf[was.step]; ofTurn {
		p.spent[part] += now.Sub(was.at)
	}
	if step == pipeline.StepStored {
		p.turns++
	}
}

// begin forgets what was before.
func (p *turnParts) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.last)
	clear(p.spent)
	p.turns = 0
}

// each is the mean of each part in a turn, in milliseconds.
func (p *turnParts) each() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	mean := map[string]float64{}
	for part, spent := range p.spent {
		mean[part] = float64(spent.Microseconds()) / 1000 / float64(max(p.turns, 1))
	}
	return mean
}
