package pipeline

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lookout hears of brokers that go away from a session. One that is killed
// while it ends a transaction may leave it open (settle.go), and then what was
// committed is not seen until its partition is written to again: so it is
// looked for, beside the turns.
type lookout struct {
	lost  atomic.Bool                        // a broker has gone away since the last look
	wake  atomic.Pointer[context.CancelFunc] // ends the poll under way
	going atomic.Bool
	open  atomic.Pointer[[]place] // what was found
	upTo  time.Time               // what was committed until then has been looked at, or is
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (l *lookout) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	l.lost.Store(true)
	l.rouse()
}

// due says that the next turn begins a look, and should not be waited for.
func (l *lookout) due() bool { return l.open.Load() != nil || l.lost.Load() && !l.going.Load() }

func (l *lookout) rouse() {
	if wake := l.wake.Load(); wake != nil {
		(*wake)()
	}
}

// What the look beside the turns asks, and when again if not all answered. A
// turn that is under way is open, too: it has this long to end.
const (
	lookoutLooks = 150 // openPause apart
	lookoutAgain = 5 * time.Second
)

// lookAround fails if a transaction was found left open: to open the partition
// again ends it.
func (p *Partition) lookAround() error {
	l := &p.kafka.lookout
	if open := l.open.Load(); open != nil {
		return fmt.Errorf("a broker went away, and a transaction was left open in %v", *open)
	}
	if !l.going.Load() && l.lost.Swap(false) && p.committed.After(l.upTo) { // connections that idle are closed, too
		l.upTo = p.committed
		l.going.Store(true)
		go func() {
			p.watch(p.kafka.life)
			if l.going.Store(false); l.due() {
				l.rouse()
			}
		}()
	}
	return nil
}

// watch looks until every partition has said that nothing of ours is open, or
// one that something is. Where we may not ask whose it is, it is let be: it may
// be somebody else's for ever.
func (p *Partition) watch(ctx context.Context) {
	for ctx.Err() == nil {
		left, err := p.leftByUs(ctx, lookoutLooks)
		if len(left.ours) > 0 {
			p.kafka.lookout.open.Store(&left.ours)
			p.kafka.lookout.rouse()
			return
		}
		if err == nil && len(left.unknown) == 0 {
			return
		}
		sleep(ctx, lookoutAgain)
	}
}
