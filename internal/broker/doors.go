package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// doors is where connections come in: from the network, and from clients in
// this process, whose bytes never leave it.
type doors struct {
	net.Listener // the network's
	inner        *bufconn.Listener
	in           chan net.Conn
	shut         chan struct{} // no more connections come in
	once         sync.Once
	err          error // why

	kept  atomic.Bool    // the network's listener stays open for the next node
	outer sync.WaitGroup // who accepts from it
}

// innerBuffer is what a connection within the process holds in each direction.
const innerBuffer = 64 << 10

func openDoors(outer net.Listener) *doors {
	d := &doors{Listener: outer, inner: bufconn.Listen(innerBuffer), in: make(chan net.Conn), shut: make(chan struct{})}
	d.outer.Go(func() { d.admit(d.Listener) })
	go d.admit(d.inner)
	return d
}

// keep lets close leave the network's listener open, so that clients that connect meanwhile wait for the
// next node. It returns nil if the listener cannot be kept.
func (d *doors) keep() net.Listener {
	if _, ok := d.Listener.(deadliner); !ok {
		return nil
	}
	d.kept.Store(true)
	return d.Listener
}

// deadliner is a listener whose Accept can be ended without closing it.
type deadliner interface{ SetDeadline(time.Time) error }

// leave ends Accept of the network's listener.
func (d *doors) leave() error {
	l := d.Listener.(deadliner)
	if err := l.SetDeadline(time.Unix(1, 0)); err != nil {
		return err
	}
	d.outer.Wait()
	return l.SetDeadline(time.Time{})
}

// admit brings in what comes through one door. When one is shut both are.
func (d *doors) admit(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			go d.close(err) // which may wait for this loop to end
			return
		}
		select {
		case d.in <- d.mark(l, c):
		case <-d.shut:
			c.Close()
			return
		}
	}
}

// innerDoor is the broker's end of a connection within the process.
type innerDoor struct{ net.Conn }

func (d *doors) mark(l net.Listener, c net.Conn) net.Conn {
	if l == d.inner {
		return innerDoor{c}
	}
	return c
}

func (d *doors) Accept() (net.Conn, error) {
	select {
	case c := <-d.in:
		return c, nil
	case <-d.shut:
		return nil, d.err
	}
}

func (d *doors) Close() error { return d.close(net.ErrClosed) }

func (d *doors) close(why error) (err error) {
	d.once.Do(func() {
		d.err = why
		close(d.shut)
		if err = d.inner.Close(); d.kept.Load() {
			err = errors.Join(err, d.leave())
		} else {
			err = errors.Join(err, d.Listener.Close())
		}
	})
	return err
}

// Dial is a kgo.Dialer for clients in the broker's process, whatever address
// they ask for: no system call and no network lie between the two. Otherwise
// it is as over the network, refused while the broker does not serve.
func (b *Broker) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if d := b.entry.Load(); d != nil {
		c, err := d.inner.DialContext(ctx)
		if err == nil {
			return innerConn{c}, nil
		}
		if ctx.Err() != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// innerConn is a client's end. What is closed it calls so, as the network does:
// kgo tries again after that, and not after a closed pipe.
type innerConn struct{ net.Conn }

func (c innerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, closedConn(err)
}

func (c innerConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, closedConn(err)
}

func closedConn(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return net.ErrClosed
	}
	return err
}
