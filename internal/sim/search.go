package sim

import "slices"

// Run lives a plan: Bubble, or what a test has instead.
type Run func(Plan) *Outcome

// Rate lives a plan so many times, and says how often the contract was broken.
// The same plan does not always fail: in which order goroutines run is not ours
// to fix.
func Rate(p Plan, times int, run Run) (failed int) {
	for range times {
		if len(run(p).Violations) > 0 {
			failed++
		}
	}
	return failed
}

// Shrink looks for a smaller plan that fails: fewer faults, then fewer triggers,
// then less time. Each candidate has so many tries. It returns the smallest that
// failed, and how.
func Shrink(failed *Outcome, tries int, run Run) *Outcome {
	s := &shrinker{best: failed, tries: tries, run: run}
	for _, name := range failed.Plan.Faults {
		s.try(func(p *Plan) {
			p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f string) bool { return f == name })
		})
	}
	for s.best.Plan.Triggers > 1 && s.try(func(p *Plan) { p.Triggers = max(1, p.Triggers/4) }) {
	}
	for s.best.Plan.Days > 0.01 && s.try(func(p *Plan) { p.Days /= 4 }) {
	}
	if s.best.Plan.Partitions > 1 {
		s.try(func(p *Plan) { p.Partitions = 1 })
	}
	return s.best
}

// shrinker is the smallest plan that has failed so far.
type shrinker struct {
	best  *Outcome
	tries int
	run   Run
}

// try says whether a smaller plan fails, too, and keeps it if it does.
func (s *shrinker) try(change func(*Plan)) bool {
	p := s.best.Plan
	change(&p)
	for range s.tries {
		if o := s.run(p); len(o.Violations) > 0 {
			s.best = o
			return true
		}
	}
	return false
}
