package chaos

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/waterclock/waterclock/test/built"
)

// Engines and brokers lose each other: packets between namespaces where we are
// root, else bytes in a proxy of the engine's. Engines and nodes count from 1.

// deafen drops what node sends to engine; the other way it arrives.
func (w *world) deafen(engine, node int) (heal func()) {
	if !w.s.root {
		return w.engines[engine-1].links[node-1].lose(false, true)
	}
	w.kafka.Mute(node, guest(engine))
	return func() { w.kafka.Unmute(node, guest(engine)) }
}

// mute drops what engine sends to node.
func (w *world) mute(engine, node int) (heal func()) {
	if !w.s.root {
		return w.engines[engine-1].links[node-1].lose(true, false)
	}
	w.kafka.Mute(guest(engine), node)
	return func() { w.kafka.Unmute(guest(engine), node) }
}

// cut is both.
func (w *world) cut(engine, node int) (heal func()) {
	a, b := w.deafen(engine, node), w.mute(engine, node)
	return func() { a(); b() }
}

// links are an engine's ways to the brokers, in their order.
func (w *world) links() (links []*link) {
	w.t.Helper()
	for _, broker := range w.brokers {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { ln.Close() })
		l := &link{addr: ln.Addr().String(), to: broker, open: map[net.Conn]bool{}}
		go l.accept(ln)
		links = append(links, l)
	}
	return links
}

// dialMap is FAILPOINTS_DIAL: broker=proxy, for each.
func dialMap(links []*link) string {
	var out []string
	for _, l := range links {
		out = append(out, l.to+"="+l.addr)
	}
	return strings.Join(out, ",")
}

// link is a proxy between one engine and one broker. What is lost on it is lost:
// its connections break when it is healed, as nobody could make sense of them.
type link struct {
	addr, to         string
	loseTo, loseFrom atomic.Bool // what goes to the broker, what comes from it

	mu   sync.Mutex
	open map[net.Conn]bool
}

func (l *link) lose(to, from bool) (heal func()) {
	if to {
		l.loseTo.Store(true)
	}
	if from {
		l.loseFrom.Store(true)
	}
	return func() {
		l.loseTo.Store(false)
		l.loseFrom.Store(false)
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.open {
			c.Close()
		}
	}
}

func (l *link) accept(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go l.serve(c)
	}
}

func (l *link) serve(client net.Conn) {
	defer l.close(client)
	l.mu.Lock()
	l.open[client] = true
	l.mu.Unlock()
	broker, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer broker.Close()
	go func() {
		defer broker.Close()
		pass(broker, client, &l.loseTo)
	}()
	pass(client, broker, &l.loseFrom)
}

func (l *link) close(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

func pass(to, from net.Conn, lose *atomic.Bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if lose.Load() {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func freePort(t *testing.T, address string) string {
	t.Helper()
	if address != "127.0.0.1" {
		return "8080" // in a namespace of its own
	}
	_, port, _ := net.SplitHostPort(built.FreeAddr(t))
	return port
}
