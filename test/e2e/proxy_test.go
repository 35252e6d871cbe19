package e2e

import (
	wire "encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// proxy stands between an engine and a broker: answers come late, and requests
// of a kind can be held back.
type proxy struct {
	addr  string
	to    string
	delay atomic.Int64 // of every answer

	mu   sync.Mutex
	held map[kmsg.Key]chan struct{} // requests of this kind wait until it is closed
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &proxy{addr: ln.Addr().String(), to: to, held: map[kmsg.Key]chan struct{}{}}
	t.Cleanup(p.release)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// hold lets no request of a kind through until release.
func (p *proxy) hold(kind kmsg.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[kind] = make(chan struct{})
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, held := range p.held {
		close(held)
	}
	clear(p.held)
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	broker, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	go func() {
		defer broker.Close()
		defer client.Close()
		p.requests(broker, client)
	}()
	p.answers(client, broker)
	broker.Close()
}

// requests passes frame after frame.
func (p *proxy) requests(to io.Writer, from io.Reader) {
	head := make([]byte, 6) // length, key of the kind
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		p.mu.Lock()
		held := p.held[kmsg.Key(wire.BigEndian.Uint16(head[4:]))]
		p.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, err := to.Write(head); err != nil {
			return
		}
		if _, err := io.CopyN(to, from, int64(wire.BigEndian.Uint32(head))-2); err != nil {
			return
		}
	}
}

// answers passes what comes, each piece as late as it shall be.
func (p *proxy) answers(to io.Writer, from io.Reader) {
	type piece struct {
		at time.Time
		b  []byte
	}
	line := make(chan piece, 256)
	go func() {
		defer close(line)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				line <- piece{time.Now().Add(time.Duration(p.delay.Load())), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for next := range line {
		time.Sleep(time.Until(next.at))
		if _, err := to.Write(next.b); err != nil {
			for range line { // until the reader has seen it
			}
			return
		}
	}
}
