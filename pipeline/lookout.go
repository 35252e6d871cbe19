package pipeline

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/output"
)

// lookout hears of brokers that go away from a session. One that is killed
// while it ends a transaction may leave it open (settle.go), and then what was
// committed is not seen until its partition is written to again: so it is
// looked for, beside the turns. It asks due topics, too, that have not said
// whether something was left open when the partition was opened.
type lookout struct {
	lost  atomic.Bool                        // a broker has gone away since the last look
	wake  atomic.Pointer[context.CancelFunc] // ends the poll under way
	going atomic.Bool
	upTo  time.Time // what was committed until then has been looked at, or is
	asked bool      // what is unsettled is being asked for

	open    atomic.Pointer[[]kafkapart.TopicPartition] // what was found
	settled chan []kafkapart.TopicPartition            // that nothing of ours is open there
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (l *lookout) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	l.lost.Store(true)
	l.rouse()
}

// due says that the next turn begins a look, and should not be waited for.
func (l *lookout) due() bool {
	return l.open.Load() != nil || len(l.settled) > 0 || l.lost.Load() && !l.going.Load()
}

func (l *lookout) rouse() {
	if wake := l.wake.Load(); wake != nil {
		(*wake)()
	}
}

// When it is asked again if not all have answered.
const (
	lookoutAgain     = 5 * time.Second
	unsettledAgain   = time.Second
	mostLookoutAgain = 5 * time.Minute
)

// lookAround fails if a transaction was found left open: to open the partition
// again ends it.
func (p *Partition) lookAround() error {
	l := &p.kafka.lookout
	if open := l.open.Load(); open != nil {
		return fmt.Errorf("a broker went away, and a transaction was left open in %v", *open)
	}
	p.lookForUnsettled()
	if !l.going.Load() && l.lost.Swap(false) && p.committed.After(l.upTo) { // connections that idle are closed, too
		l.upTo = p.committed
		l.going.Store(true)
		var places []kafkapart.TopicPartition
		for _, topic := range slices.Sorted(maps.Keys(p.kafka.met)) {
			places = append(places, p.dueTopics.WrittenBy(topic, p.id)...)
		}
		go func() {
			p.kafka.watch(places, openWithinTurn, lookoutAgain, mostLookoutAgain, func([]kafkapart.TopicPartition) {})
			if l.going.Store(false); l.due() {
				l.rouse()
			}
		}()
	}
	return nil
}

// watch looks until every kafkapart.TopicPartition has said that nothing of ours is open there, of
// which said hears, or one that something is. Where we may not ask whose it is,
// it is let be: it may be somebody else's for ever.
func (s *session) watch(places []kafkapart.TopicPartition, within, pause, most time.Duration, said func([]kafkapart.TopicPartition)) {
	for ; ; pause = min(2*pause, most) {
		unknown, over := s.seek(places, within)
		if over {
			return
		}
		var silent, heard []kafkapart.TopicPartition
		for _, at := range places {
			if unknown[at] != nil {
				silent = append(silent, at)
			} else {
				heard = append(heard, at)
			}
		}
		if len(heard) > 0 {
			said(heard)
		}
		if places = silent; len(places) == 0 {
			return
		}
		wait.For(s.life, pause)
	}
}

// lookForUnsettled has due topics asked that have not said what is open in them,
// and takes their answers.
func (p *Partition) lookForUnsettled() {
	l := &p.kafka.lookout
	for len(l.settled) > 0 {
		for _, at := range <-l.settled {
			delete(p.own.unsettled, at)
		}
	}
	if len(p.own.unsettled) == 0 {
		p.own.resettled = 0
		return
	}
	if l.asked {
		return
	}
	l.asked = true
	pause := min(unsettledAgain<<min(p.own.resettled, 9), mostLookoutAgain) // it may refuse to be settled
	p.own.resettled++
	places, most := slices.SortedFunc(maps.Keys(p.own.unsettled), kafkapart.TopicPartition.Compare), max(pause, output.LeaderPause)
	go func() {
		wait.For(p.kafka.life, pause)
		p.kafka.watch(places, openWithin, min(2*pause, most), most, p.kafka.nothingOpen)
	}()
}

// nothingOpen tells the turns where they may write.
func (s *session) nothingOpen(places []kafkapart.TopicPartition) {
	select {
	case s.lookout.settled <- places:
	case <-s.life.Done():
	}
	s.lookout.rouse()
}

// seek looks for what is left open of ours, and tells the turns if there is any:
// then, or when the session ends, looking is over.
func (s *session) seek(places []kafkapart.TopicPartition, within time.Duration) (unknown map[kafkapart.TopicPartition]error, over bool) {
	ctx, cancel := context.WithTimeout(s.life, openStep)
	defer cancel()
	left := leftover{}
	producer, _, err := s.cl.ProducerID(ctx)
	if err == nil {
		left, err = s.leftOpen(ctx, producer, places, within)
	}
	switch {
	case s.life.Err() != nil:
		return nil, true
	case err != nil:
		left = unknownAll(places, err)
	case len(left.ours) > 0:
		s.lookout.open.Store(&left.ours)
		s.lookout.rouse()
		return nil, true
	}
	return left.unknown, false
}
