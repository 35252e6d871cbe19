package chaos

import "time"

// phase is what the cluster has to do while a fault strikes. begin returns when
// it is time to strike; what it returns ends the phase.
type phase struct {
	name   string
	outage bool // it begins with one of its own, which counts as the fault's
	begin  func(w *world) (end func())
}

var phases = []*phase{
	{"idle", false, func(w *world) func() {
		w.load.pace(1)
		time.Sleep(2 * time.Second)
		return func() {}
	}},
	{"steady", false, func(w *world) func() {
		w.load.pace(steadyPace)
		time.Sleep(3 * time.Second)
		return func() { w.load.pace(1) }
	}},
	{"herd", false, func(w *world) func() {
		w.load.pace(steadyPace / 5)
		w.load.herd(herdSize, time.Now().Add(w.between(4*time.Second, 8*time.Second)))
		time.Sleep(2 * time.Second)
		return func() { w.load.pace(1) }
	}},
	{"catch-up", true, func(w *world) func() {
		w.load.pace(steadyPace)
		time.Sleep(2 * time.Second)
		for _, e := range w.engines {
			e.kill()
		}
		time.Sleep(w.between(8*time.Second, 15*time.Second))
		for _, e := range w.engines {
			e.launch()
		}
		time.Sleep(w.between(0, 6*time.Second)) // they join, restore, read, fire
		return func() { w.load.pace(1) }
	}},
}

const (
	steadyPace = 40   // commands a second, about
	herdSize   = 2000 // triggers that are due at one instant
)
