package pipeline_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

// costs make work take time, as it does on a machine. In a bubble it takes none, and a turn of any size is as long as
// its transaction.
type costs struct {
	pipeline.Listener
	fire  time.Duration
	times atomic.Int64 // a fire costs so many times that
	store atomic.Int64 // how long the store takes to apply a turn, in ns
}

// costing makes a world whose engine has costs.
func costing(t *testing.T, seed uint64, partitions int32, fire time.Duration) (*sim.World, *costs) {
	c := &costs{fire: fire}
	c.times.Store(1)
	return sim.New(t, sim.Options{Seed: seed, Partitions: partitions, Change: func(_ string, o *pipeline.Options) {
		c.Listener, o.Listener = o.Listener, c
	}}), c
}

func (c *costs) Fired(channel string, p trigger.Priority, late time.Duration) {
	time.Sleep(c.fire * time.Duration(c.times.Load()))
	c.Listener.Fired(channel, p, late)
}

func (c *costs) Step(partition int32, step pipeline.Step) {
	if step == pipeline.StepCommitted {
		time.Sleep(time.Duration(c.store.Load()))
	}
	c.Listener.Step(partition, step)
}
