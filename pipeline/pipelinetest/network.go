package pipelinetest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate is one node's way to the network: it lets traffic flow, holds it, or is
// gone for good.
type gate struct {
	network *kfake.VirtualNetwork

	mu    sync.Mutex
	open  chan struct{} // closed: traffic flows
	gone  bool
	away  bool                       // until heal, every attempt fails at once
	muted chan struct{}              // heartbeats wait until it is closed; nil: they pass
	slow  map[kmsg.Key]time.Duration // by how much answers are late
	bad   Weather                    // what else happens to answers; nil: nothing
	conns map[net.Conn]struct{}

	cut *atomic.Pointer[cutLog] // of the world: a log that has lost its end
}

// Weather says what happens to the answer to a request: it comes so much later
// than the broker gave it, or it is lost, and its connection with it, after the
// broker has done what was asked.
type Weather func(key kmsg.Key) (late time.Duration, lost bool)

func newGate(network *kfake.VirtualNetwork, cut *atomic.Pointer[cutLog]) *gate {
	g := &gate{network: network, open: make(chan struct{}), conns: map[net.Conn]struct{}{}, cut: cut}
	close(g.open)
	return g
}

// errGone is what a dead node's dials meet.
var errGone = errors.New("pipelinetest: no route to host")

// dial is a kgo.Dialer.
func (g *gate) dial(ctx context.Context, network, host string) (net.Conn, error) {
	if err := g.pass(ctx.Done()); err != nil {
		return nil, err
	}
	c, err := g.network.DialContext(ctx, network, host)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone || g.away {
		c.Close()
		return nil, errGone
	}
	g.conns[c] = struct{}{}
	return &conn{Conn: c, g: g, closed: make(chan struct{}), asked: map[int32]asked{}}, nil
}

// pass waits while the gate is closed.
func (g *gate) pass(giveUp <-chan struct{}) error {
	g.mu.Lock()
	open, gone := g.open, g.gone || g.away
	g.mu.Unlock()
	if gone {
		return errGone
	}
	select {
	case <-open:
		return nil
	case <-giveUp:
		return errGone
	}
}

// hang holds all traffic until heal: nothing is lost, nothing arrives.
func (g *gate) hang() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		g.open = make(chan struct{})
	default:
	}
}

// mute holds back what tells the group that the node lives, until heal.
func (g *gate) mute() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.muted == nil {
		g.muted = make(chan struct{})
	}
}

// delay makes the answers to requests of a kind arrive late, as the broker gave
// them in time. 0 ends it for requests to come.
func (g *gate) delay(key kmsg.Key, by time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slow == nil {
		g.slow = map[kmsg.Key]time.Duration{}
	}
	g.slow[key] = by
}

func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away, g.bad = false, nil
	if g.muted != nil {
		close(g.muted)
		g.muted = nil
	}
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// weather makes answers late, or loses them, until heal.
func (g *gate) weather(w Weather) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bad = w
}

// fate is what will happen to the answer to a request.
func (g *gate) fate(key kmsg.Key) (late time.Duration, lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late = g.slow[key]
	if g.bad != nil {
		more, gone := g.bad(key)
		late, lost = late+more, gone
	}
	return late, lost
}

// held is what heartbeats wait for; nil: nothing.
func (g *gate) held() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.muted
}

// breakAll closes every connection; new ones may be made.
func (g *gate) breakAll() {
	g.mu.Lock()
	conns := g.conns
	g.conns = map[net.Conn]struct{}{}
	g.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// refuse closes every connection and makes no more until heal.
func (g *gate) refuse() {
	g.mu.Lock()
	g.away = true
	g.mu.Unlock()
	g.breakAll()
}

// sever closes every connection and makes no more.
func (g *gate) sever() {
	g.mu.Lock()
	g.gone = true
	g.mu.Unlock()
	g.heal()
	g.breakAll()
}
