package dangling

import (
	"context"
	"errors"
	"log/slog"
	"testing"
)

// TestFailedResolutionForgetsNothing: a due topic did not answer the opening of before, so no
// record went there since. An opening that fails must not forget how its transaction ended.
func TestFailedResolutionForgetsNothing(t *testing.T) {
	due := TopicPartition{Topic: "due.a"}
	k := &Kept{Unresolved: map[TopicPartition]Ending{due: Aborted}}
	errAway := errors.New("away")
	r := &Resolver{Config{
		Due: func(context.Context) ([]TopicPartition, error) { return nil, errAway },
		Log: slog.New(slog.DiscardHandler),
	}}
	if err := k.Resolve(t.Context(), r, Committed); !errors.Is(err, errAway) {
		t.Fatal(err)
	}
	if how := k.Unresolved[due]; how != Aborted || !k.Holds(due.Topic) {
		t.Errorf("its transaction was %q, and is now to end %q", Aborted, how)
	}
	if err := k.Resolve(t.Context(), r, NeverBegun); err != nil || k.Unresolved[due] != Aborted {
		t.Errorf("%v, %q", err, k.Unresolved[due])
	}
}
