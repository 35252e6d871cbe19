package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// turnSizes notes how many records the largest turn wrote.
type turnSizes struct {
	pipeline.Listener
	largest atomic.Int64
}

func (s *turnSizes) Turn(partition int32, records int, took time.Duration) {
	for was := s.largest.Load(); int64(records) > was && !s.largest.CompareAndSwap(was, int64(records)); {
		was = s.largest.Load()
	}
	s.Listener.Turn(partition, records, took)
}

// A process that is short of memory takes its commands in small portions, loses
// none, and fires on time.
func TestPressedReadsLess(t *testing.T) {
	for _, pressed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sizes := &turnSizes{}
			w := sim.New(t, sim.Options{Partitions: 1, Seed: 11, Change: func(_ string, o *pipeline.Options) {
				sizes.Listener, o.Listener = o.Listener, sizes
				o.MaxTurnRecords = 200
				o.Pressed = func() bool { return pressed }
			}})
			for i := range 400 { // they wait for an owner: one fetch brings them all
				w.Register(fmt.Sprintf("k%d", i), time.Now().Add(10*time.Minute))
			}
			w.Start("a")
			w.AwaitOwners()
			time.Sleep(5 * time.Minute)
			largest := sizes.largest.Load() / 2 // a register is a state and an event
			if most := int64(20); pressed && largest > most {
				t.Errorf("short of memory, a turn of %d commands; the most is %d", largest, most)
			}
			if !pressed && largest < 100 {
				t.Errorf("the largest turn had %d commands; the test tests nothing", largest)
			}
			time.Sleep(10 * time.Minute)
			for i := range 400 {
				w.RequireDelivered(fmt.Sprintf("k%d", i), 1)
			}
			w.CheckInvariants()
		})
	}
}
