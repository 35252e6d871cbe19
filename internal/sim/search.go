package sim

import "slices"

// Run runs a plan: Bubble, or a test's replacement.
type Run func(Plan) *Outcome

// Rate runs a plan several times, and returns how often it broke the contract. The same plan does
// not always fail, because the order in which goroutines run is not fixed.
func Rate(p Plan, times int, run Run) (failed int) {
	for range times {
		if len(run(p).Violations) > 0 {
			failed++
		}
	}
	return failed
}

// Shrink searches for a smaller plan that fails: first fewer faults, then fewer triggers, then
// less time. Each candidate gets several tries. It returns the outcome of the smallest plan that
// failed.
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

// shrinker holds the smallest plan that has failed so far.
type shrinker struct {
	best  *Outcome
	tries int
	run   Run
}

// try reports whether a smaller plan fails too, and keeps it if it does.
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
