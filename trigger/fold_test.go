package trigger

import (
	"fmt"
	"testing"
)

// folded is a trigger as its facts alone say.
type folded struct {
	status        Status
	revision, seq int64
	next          Instant
	rule          Spec
}

// fold takes in the facts of one decision.
func (f *folded) fold(facts []Fact) {
	for i := range facts {
		e := &facts[i]
		f.status, f.revision, f.seq = e.State, e.Revision, e.Seq
		if e.Type.SaysNext() {
			f.next = e.Next
		}
		if e.Rule != nil {
			f.rule = *e.Rule
		}
	}
}

// TestFactsSayTheState folds the facts of random lives. After every step, and so at every
// instant, they say what the state says.
func TestFactsSayTheState(t *testing.T) {
	steps := 0
	for n := range uint64(300) {
		seed := baseSeed() + n
		ok := t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newWorld(t, scriptStart)
			known := map[Key]*folded{}
			w.observe = func(at Instant, s *State, out Outcome) {
				if s == nil {
					return
				}
				f := known[s.Key]
				if f == nil || len(out.Facts) > 0 && out.Facts[0].Seq == 1 {
					f = &folded{}
					known[s.Key] = f
				}
				f.fold(out.Facts)
				steps++
				f.compare(t, at, s)
			}
			(&script{b: randomBytes(seed, 160), w: w, zones: true}).run()
		})
		if !ok {
			return
		}
	}
	if steps < 10_000 {
		t.Errorf("only %d steps were compared", steps)
	}
}

func (f *folded) compare(t *testing.T, at Instant, s *State) {
	t.Helper()
	if f.status != s.Status || f.revision != s.Revision || f.seq != s.Seq || f.next != s.NextPlanned() {
		t.Errorf("%v %s: the facts say %v, revision %d, seq %d, next %v\nthe state %v, %d, %d, %v", at, s.Key,
			f.status, f.revision, f.seq, f.next, s.Status, s.Revision, s.Seq, s.NextPlanned())
	}
	if s.Series.At == 0 {
		return // nothing is planned by a rule; a redrive of a forgotten key has none
	}
	if r, o := &f.rule, &s.Spec; !r.When.same(&o.When) || r.Priority != o.Priority || r.Jitter != o.Jitter ||
		r.Expires != o.Expires || r.Misfire != o.Misfire || r.FollowUser != o.FollowUser {
		t.Errorf("%v %s: the facts say the rule %+v\nthe state %+v", at, s.Key, f.rule, s.Spec)
	}
}
