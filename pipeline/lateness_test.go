package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/trigger"
)

// The owner of a partition has counted what it fired, by tenant and channel. The next owner
// begins anew, and says when.
func TestLatenessIsCounted(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	const n = 40
	due := w.Tail(w.Names.Due("late-push"))
	for i := range n {
		w.Send(fmt.Sprintf("acme/%d", i), `{"op":"register","delay":"10ms","channel":"late-push"}`)
	}
	due.Take(n)
	sum := func(node, tenant string) (fires int64, since trigger.Instant) {
		now, hour := trigger.At(time.Now()), lateness.Windows[1]
		for _, s := range w.Node(node).Partitions() {
			r, err := w.Node(node).Lateness(s.Partition, now, hour, tenant)
			if err != nil {
				return 0, 0
			}
			all := r.All()
			if all.N > 0 && (all.Percentile(50) > 10_000 || r.Channels["late-push"].N != all.N) {
				t.Errorf("partition %d: p50 %d ms, by channel %+v", s.Partition, all.Percentile(50), r.Channels)
			}
			fires, since = fires+all.N, max(since, trigger.Instant(r.SinceMS))
		}
		return fires, since
	}
	w.Eventually("all are counted", func() bool { fires, _ := sum("a", "acme"); return fires == n })
	if fires, _ := sum("a", ""); fires != n {
		t.Errorf("of all tenants %d", fires)
	}
	if fires, _ := sum("a", "blue"); fires != 0 {
		t.Errorf("blue sees %d", fires)
	}
	moved := trigger.At(time.Now())
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	w.Start("b")
	w.AwaitOwners()
	if fires, since := sum("b", ""); fires != 0 || since < moved {
		t.Errorf("the next owner has %d, since %v", fires, since)
	}
}
