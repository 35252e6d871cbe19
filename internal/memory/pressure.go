package memory

import (
	"context"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
)

// Pressure is how full memory is.
type Pressure int32

// The levels. What is done at each is also done at those above.
const (
	Calm Pressure = iota
	Slow          // partitions fetch less, standbys rest
	Shed          // the gateway refuses requests
)

// Percents of the limit from which on a level holds. It is left only some
// percent below: memory swings with every collection.
const (
	slowFrom = 75
	shedFrom = 85
	leaveBy  = 8
)

// Next is the level after a look: used of limit bytes.
func (p Pressure) Next(used, limit int64) Pressure {
	if limit <= 0 {
		return Calm
	}
	from := func(level Pressure, percent int64) bool {
		if p >= level {
			percent -= leaveBy
		}
		return used >= limit/100*percent
	}
	switch {
	case from(Shed, shedFrom):
		return Shed
	case from(Slow, slowFrom):
		return Slow
	}
	return Calm
}

// Usage is what a Watcher has seen.
type Usage struct {
	Limit, Used int64
	Pressure    Pressure
}

// Watcher looks at this process's memory.
type Watcher struct {
	limit int64
	used  atomic.Int64
	level atomic.Int32

	samples []metrics.Sample
}

// sampleEvery is how often. A collection near the limit comes oftener.
const sampleEvery = 100 * time.Millisecond

// NewWatcher makes one; with limit 0 it is always calm.
func NewWatcher(limit int64) *Watcher {
	w := &Watcher{limit: limit}
	for _, name := range []string{
		"/gc/heap/live:bytes", "/memory/classes/total:bytes", // the rest is subtracted
		"/memory/classes/heap/released:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/heap/free:bytes", "/memory/classes/heap/unused:bytes",
	} {
		w.samples = append(w.samples, metrics.Sample{Name: name})
	}
	w.sample()
	return w
}

// Run looks until ctx ends, and tells changed of every change of level.
func (w *Watcher) Run(ctx context.Context, changed func(Usage)) {
	wait.Every(ctx, sampleEvery, func() {
		if w.sample() {
			changed(w.Usage())
		}
	})
}

// sample measures what lives: what a collection would free does not count, since
// the heap always grows until it is collected.
func (w *Watcher) sample() (changed bool) {
	metrics.Read(w.samples)
	used := int64(w.samples[0].Value.Uint64()) + int64(w.samples[1].Value.Uint64())
	for _, s := range w.samples[2:] {
		used -= int64(s.Value.Uint64())
	}
	w.used.Store(used)
	was := Pressure(w.level.Load())
	is := was.Next(used, w.limit)
	w.level.Store(int32(is))
	return was != is
}

// Usage is what the last look saw.
func (w *Watcher) Usage() Usage { return Usage{w.limit, w.used.Load(), Pressure(w.level.Load())} }

// Pressed says that partitions shall fetch less.
func (w *Watcher) Pressed() bool { return Pressure(w.level.Load()) >= Slow }

// Shedding says that requests are refused.
func (w *Watcher) Shedding() bool { return Pressure(w.level.Load()) >= Shed }
