package sim

import (
	"context"
	"encoding/binary"
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
	conns map[net.Conn]struct{}
}

func newGate(network *kfake.VirtualNetwork) *gate {
	g := &gate{network: network, open: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(g.open)
	return g
}

// errGone is what a dead node's dials meet.
var errGone = errors.New("sim: no route to host")

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
	return &conn{Conn: c, g: g, closed: make(chan struct{})}, nil
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
	g.away = false
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

// cut closes every connection; new ones may be made.
func (g *gate) cut() {
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
	g.cut()
}

// sever closes every connection and makes no more.
func (g *gate) sever() {
	g.mu.Lock()
	g.gone = true
	g.mu.Unlock()
	g.heal()
	g.cut()
}

// conn is a connection through a gate.
type conn struct {
	net.Conn
	g      *gate
	once   sync.Once
	closed chan struct{}
	late   atomic.Int64 // of the answer on its way, in ns
}

func (c *conn) Write(b []byte) (int, error) {
	if len(b) >= 6 {
		c.g.mu.Lock()
		if by := c.g.slow[kmsg.Key(binary.BigEndian.Uint16(b[4:]))]; by > 0 {
			c.late.Store(int64(by))
		}
		c.g.mu.Unlock()
	}
	if isHeartbeat(b) {
		c.g.mu.Lock()
		muted := c.g.muted
		c.g.mu.Unlock()
		if muted != nil {
			select {
			case <-muted:
			case <-c.closed:
				return 0, errGone
			}
		}
	}
	if err := c.g.pass(c.closed); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// isHeartbeat looks at a request: its length, then its key. kgo writes a
// request in one piece.
func isHeartbeat(b []byte) bool {
	if len(b) < 6 {
		return false
	}
	key := kmsg.Key(binary.BigEndian.Uint16(b[4:]))
	return key == kmsg.Heartbeat || key == kmsg.ConsumerGroupHeartbeat
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if by := c.late.Swap(0); by > 0 {
		select {
		case <-time.After(time.Duration(by)):
		case <-c.closed:
		}
	}
	if err == nil {
		err = c.g.pass(c.closed)
	}
	return n, err
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.g.mu.Lock()
	delete(c.g.conns, c.Conn)
	c.g.mu.Unlock()
	return c.Conn.Close()
}
