package watermark_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/trigger"
)

// A turn does not know the offsets of what it emits until Kafka has it. So the turn after it says
// how far the partition has fired.
func ExampleLedger() {
	l := watermark.Resume(watermark.Options{Partition: 3, Interval: time.Second, Idle: 5 * time.Second}, 0)
	l.Know(watermark.Offsets{Events: 100}, nil)
	for turn := range int64(2) {
		now := trigger.Instant(1_795_183_200_000 + turn*1000)
		l.Begin(now, true, false)
		if w := l.End(watermark.Work{Hand: now, Next: now + 60_000, Emits: true}); w != nil {
			fmt.Println("fired through", w.FiredThrough, "below offset", w.EventsOffset)
		}
		l.Committed(watermark.Offsets{Events: 110 + 10*turn})
	}
	// Output: fired through 2026-11-20T14:00:00.000Z below offset 110
}
