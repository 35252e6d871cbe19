package trigger

import (
	"cmp"
	"testing"
)

// RandomLife plays a random script. observe gets each decision: the state of its trigger
// after it, which may be nil, and its facts. Tests outside of this package use it.
func RandomLife(t testing.TB, n uint64, observe func(at Instant, key Key, s *State, facts []Fact)) {
	w := newWorld(t, scriptStart)
	w.observe = func(at Instant, s *State, out Outcome) {
		if s != nil {
			observe(at, s.Key, s, out.Facts)
		}
	}
	(&script{b: randomBytes(cmp.Or(n, 1), 400), w: w, zones: true}).run()
}
