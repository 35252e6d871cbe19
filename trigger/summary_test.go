package trigger

import (
	"math/rand/v2"
	"testing"
)

// TestSummary: what answers are made of is the same in a summary, in every state
// that random scripts lead to.
func TestSummary(t *testing.T) {
	for n := range 200 {
		seed := baseSeed() + uint64(n)
		var got State // one for all
		p := &script{b: randomBytes(seed, 160), w: newWorld(t, scriptStart), zones: true}
		p.w.observe = func(_ Instant, _ *State, out Outcome) {
			s := out.State
			if s == nil {
				return
			}
			s.Summarize(&got)
			if got.Status != s.Status || got.Revision != s.Revision || got.Nominal() != s.Nominal() ||
				got.NextFire() != s.NextFire() ||
				got.Series.Local != s.Series.Local || got.Key != s.Key || got.Hash != s.Hash || len(got.Done) > 1 ||
				len(got.Live) > 1 {
				t.Fatalf("seed %d: %+v\nis the summary of\n%+v", seed, got, s)
			}
			if n := len(s.Done); n > 0 && got.Done[0] != s.Done[n-1] {
				t.Fatalf("seed %d: the last firing is %+v, not %+v", seed, got.Done[0], s.Done[n-1])
			}
		}
		p.run()
	}
}

// TestSummaryIsSmall: the largest trigger there can be leaves little behind.
func TestSummaryIsSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &State{Key: "k", Status: Pending}
	s.Spec.Payload = make([]byte, 512<<10)
	for range MaxLive {
		s.Live = append(s.Live, Live{
			Kind: LiveInFlight, Occurrence: "o", Due: Instant(r.Int64N(1000) + 1),
			Was: &Spec{Payload: make([]byte, 512<<10)},
		})
	}
	var got State
	if s.Summarize(&got); got.SummarySize() > 4<<10 || got.Spec.Payload != nil || len(got.Live) > 0 {
		t.Errorf("the summary takes %d bytes: %+v", got.SummarySize(), got)
	}
}
