package chaos

import (
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// What becomes of the processes of engines.
var processFaults = []*fault{
	{name: "an engine is killed again and again", strike: func(w *world) func() {
		w.during(12*time.Second, func() {
			e := w.anyEngine()
			e.kill()
			time.Sleep(w.between(0, time.Second))
			e.launch()
			time.Sleep(w.between(0, 5*time.Second))
		})
		return nil
	}},
	{
		name: "an engine is killed and stays away", least: 8 * time.Second, most: 15 * time.Second,
		strike: func(w *world) func() {
			e := w.anyEngine()
			e.kill()
			return e.launch
		},
	},
	{name: "all engines are killed", least: time.Second, most: 10 * time.Second, strike: func(w *world) func() {
		for _, e := range w.engines {
			e.kill()
		}
		return func() {
			for _, e := range w.engines {
				e.launch()
			}
		}
	}},
	{
		name: "an engine is frozen past its session", least: 8500 * time.Millisecond, most: 9500 * time.Millisecond,
		strike: freeze,
	},
	{name: "an engine is frozen past its transaction", least: 18 * time.Second, most: 22 * time.Second, strike: freeze},
	{name: "an engine is frozen for moments", strike: func(w *world) func() {
		e := w.anyEngine()
		w.during(10*time.Second, func() {
			e.freeze()
			time.Sleep(w.between(100*time.Millisecond, 5*time.Second))
			e.thaw()
			time.Sleep(w.between(50*time.Millisecond, time.Second))
		})
		return nil
	}},
	{name: "engines are restarted one after another", strike: func(w *world) func() {
		for _, e := range w.engines {
			e.stop()
			e.launch()
			w.awaitReady(e)
		}
		return nil
	}},
	{name: "an engine joins and leaves every second", strike: func(w *world) func() {
		e := w.fourth()
		w.during(12*time.Second, func() {
			e.launch()
			time.Sleep(w.between(500*time.Millisecond, 1500*time.Millisecond))
			if w.rng.IntN(2) == 0 {
				e.kill()
			} else {
				e.stop()
			}
		})
		return nil
	}},
	{name: "engines are rolled back and forth", strike: func(w *world) func() {
		w.roll(2, func() (string, error) { return built.Previous() })
		return nil
	}},
}

func freeze(w *world) func() {
	e := w.anyEngine()
	e.freeze()
	return e.thaw
}

// awaitReady waits half a minute at most: what keeps an engine from it is the
// round's affair.
func (w *world) awaitReady(e *engine) {
	for begin := time.Now(); time.Since(begin) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		if e.ready() == nil {
			return
		}
	}
}

// fourth is an engine beside the others, for a while.
func (w *world) fourth() *engine {
	if w.extra == nil {
		w.extra = w.engine("engine-extra", "engine,api", engines+2)
	}
	return w.extra
}

// roll replaces the binaries of n engines by another version, one after the
// other, and then gives them back what they had: versions are mixed all the
// while.
func (w *world) roll(n int, other func() (string, error)) {
	w.t.Helper()
	file, err := other()
	if err != nil {
		w.t.Error(err) // what to do stands in it
		return
	}
	was := make([]string, n)
	for i, e := range w.engines[:n] {
		was[i] = e.file
		w.replace(e, file)
	}
	for i, e := range w.engines[:n] {
		w.replace(e, was[i])
	}
}

func (w *world) replace(e *engine, file string) {
	e.stop()
	e.file = file
	e.launch()
	w.awaitReady(e)
}
