package loadtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stall ends a measurement that stands still. kgo repeats what brokers do not answer for ever, and
// a measurement that waits for it would say nothing. Progress is what its clients write and read.
type stall struct {
	mu    sync.Mutex
	stage string
	most  time.Duration // how long the stage may stand still
	moved time.Time
}

// begin names what the measurement does from now on, and how long it may stand still meanwhile.
func (s *stall) begin(stage string, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stage, s.most, s.moved = stage, most, time.Now()
}

// rest says that what follows has bounds of its own.
func (s *stall) rest() { s.begin("", 0) }

// watch calls f. It ends the context of f, and returns the stage, if that stands still for too long.
func (s *stall) watch(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			sleepUntil(ctx, time.Now().Add(time.Second))
			if err := s.stalled(); err != nil && ctx.Err() == nil {
				stalled <- err
				cancel()
			}
		}
	}()
	err := f(ctx)
	select {
	case why := <-stalled:
		if err != nil {
			return why
		}
	default:
	}
	return err
}

func (s *stall) stalled() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == 0 || time.Since(s.moved) < s.most {
		return nil
	}
	return fmt.Errorf("%s: no progress for %v; %s", s.stage, s.most, tooSlow)
}

// tooSlow says what to do about brokers that are too slow to be measured.
const tooSlow = "the brokers do not answer or cannot keep up: see their logs, " +
	"or run it with fewer topics.partitions, a lower --rate or fewer --triggers"

func (s *stall) move() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = time.Now()
}

// OnProduceBatchWritten and OnFetchBatchRead are hooks of the measurement's own clients.
func (s *stall) OnProduceBatchWritten(kgo.BrokerMetadata, string, int32, kgo.ProduceBatchMetrics) {
	s.move()
}

func (s *stall) OnFetchBatchRead(kgo.BrokerMetadata, string, int32, kgo.FetchBatchMetrics) { s.move() }
