package fair

import (
	"fmt"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// BenchmarkQueueHerd is what the wheel lets go at once: pushed, and taken a
// turn's worth at a time.
func BenchmarkQueueHerd(b *testing.B) {
	refs := make([]string, 250_000)
	for i := range refs {
		refs[i] = statestore.Ref(trigger.Timer{Priority: trigger.Normal, Kind: trigger.TimerSeries},
			trigger.Key(fmt.Sprintf("herd/bench-%08x", uint32(i)*0x9e3779b1)))
	}
	slices.Sort(refs) // as the wheel hands them over
	b.ReportAllocs()
	for b.Loop() {
		var r Queue
		for _, ref := range refs {
			r.push(statestore.DueKey{Due: 1000, Ref: ref}, false)
		}
		for r.n > 0 {
			r.Take(1000, 1000)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(refs)), "ns/life")
}
