package pipeline_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestClockSetBackWhileItPolls: the clock shows a due time, and an earlier time to whoever asks
// next. Simulated time stands still while a goroutine computes. So a partition that asked again
// and again until the due time comes would do so for ever, as in seed 7639 of the simulator.
func TestClockSetBackWhileItPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		var c setBack
		w.Start("a", func(o *pipeline.Options) { o.Now = c.now })
		w.AwaitOwners()
		for n := range 20 {
			c.after(n)
			w.Register(fmt.Sprint("t", n), time.Now().Add(time.Second))
			time.Sleep(time.Second + setBackBy/2)
			w.Register(fmt.Sprint("later", n), time.Now().Add(time.Minute)) // it wakes the partition
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		w.CheckInvariants()
	})
}

const setBackBy = 100 * time.Millisecond

// setBack is a clock that is right for whoever asks first at an instant, and then set back.
type setBack struct {
	mu    sync.Mutex
	first int // how many it is right for
	asked int
	at    time.Time
}

func (c *setBack) after(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = n
}

func (c *setBack) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !now.Equal(c.at) {
		c.at, c.asked = now, 0
	}
	if c.asked++; c.asked <= c.first {
		return now
	}
	return now.Add(-setBackBy)
}
