package loadtest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline"
)

// TestTurnParts: the time between two steps counts for the part that the first one begins, in each partition apart.
func TestTurnParts(t *testing.T) {
	p := newTurnParts()
	p.step(0, pipeline.StepPoll) // before the measurement
	p.begin()
	const pause = 5 * time.Millisecond
	for _, step := range []pipeline.Step{
		pipeline.StepPoll, pipeline.StepBegin, pipeline.StepApply, pipeline.StepAdvance, pipeline.StepEmit,
		pipeline.StepFlush, pipeline.StepEnd, pipeline.StepCommitted, pipeline.StepStored, pipeline.StepPoll,
	} {
		p.step(0, step)
		p.step(1, pipeline.StepRestore) // is no part of a turn
		time.Sleep(pause)
	}
	got := p.each()
	want := []string{"decide", "end", "produce", "report", "store", "wait"}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Fatalf("the parts are %v", names)
	}
	for part, ms := range got {
		least := 1.0
		if part == "decide" {
			least = 4
		}
		if ms < least*float64(pause.Milliseconds()) {
			t.Errorf("%s took %.1f ms", part, ms)
		}
	}
}
