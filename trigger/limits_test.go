package trigger

import (
	"testing"
	"time"
)

// TestNoRetries: an empty list of retries is one attempt; only without a list
// does the channel's profile count.
func TestNoRetries(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	spec := &Spec{When: When{Kind: WhenDelay, DelayText: "1m", Delay: time.Minute}, Channel: "webhook", Priority: Normal,
		Callback: &Callback{URL: "https://example.com", Retry: []time.Duration{}}}
	w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
	w.advance(w.now.Add(time.Minute))
	s := w.states["k"]
	out := w.receive("k", &Receipt{Occurrence: s.Live[0].Occurrence, Attempt: 1, Outcome: ReceiptRetry, At: w.now})
	if len(out.Dead) != 1 || w.states["k"].Status != Failed {
		t.Errorf("after its only attempt it is %v with %+v", w.states["k"].Status, w.states["k"].Live)
	}
}
