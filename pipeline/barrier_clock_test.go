package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestCancelAfterAStepBack: a clock that was a little ahead is set right. What
// was asked by the wrong time says nothing of what is appended until that time
// comes again.
func TestCancelAfterAStepBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		w := sim.New(t, sim.Options{Partitions: 1, Epsilon: time.Second, Change: func(_ string, o *pipeline.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}})
		n := w.Start("a")
		w.AwaitOwners()
		for i := range 5 {
			at := time.Now().Add(5 * time.Second)
			until := func(before time.Duration) { time.Sleep(time.Until(at.Add(-before))) }
			ahead.Store(int64(900 * time.Millisecond))
			w.Register(fmt.Sprintf("first%d", i), at)
			until(800 * time.Millisecond) // it has gone
			ahead.Store(0)
			key := fmt.Sprintf("second%d", i)
			w.Register(key, at.Add(-100*time.Millisecond))
			until(600 * time.Millisecond)
			n.Delay(kmsg.Fetch, time.Second)
			w.Order(key+"-other", `{"op":"cancel"}`) // its fetch is the first that is late
			until(400 * time.Millisecond)
			w.Cancel(key)
			n.Delay(kmsg.Fetch, 0)
			time.Sleep(5 * time.Second)
			w.RequireDelivered(key, 0)
		}
	})
}
