package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// TestDecidedIsBounded: what is remembered for gateways keeps to its bytes and
// its time, the latest last, whatever the triggers hold.
func TestDecidedIsBounded(t *testing.T) {
	const most = 8 << 20
	d := decided{by: map[origin]Decided{}, most: most}
	now := time.Now()
	for i := range int64(50_000) {
		s := &trigger.State{Key: trigger.Key(fmt.Sprintf("tenant/%d", i)), Status: trigger.Pending}
		s.Series.Occurrence = fmt.Sprintf("%0200d", i)
		d.add([]decision{{origin{0, i}, Decided{State: s.Summary()}}}, now)
		if d.bytes > most {
			t.Fatalf("%d bytes are remembered", d.bytes)
		}
	}
	if _, ok := d.get(origin{0, 49_999}); !ok {
		t.Error("the last outcome is forgotten")
	}
	if n := len(d.by); n != len(d.order) || n < 2000 {
		t.Errorf("%d outcomes are remembered, %d in order", n, len(d.order))
	}
	d.add([]decision{{origin{0, 50_000}, Decided{}}}, now.Add(keepDecided+time.Second))
	if len(d.by) != 1 || len(d.order) != 1 {
		t.Errorf("%d outcomes are remembered after %v", len(d.by), keepDecided)
	}
}
