package providers

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/waterclock/waterclock/internal/egress"
)

// conns sends requests to one server over a few HTTP/2 connections.
//
// A pool of net/http opens another connection for each burst beyond what a server permits on the
// open ones. APNs treats many connections as an attack, and permits one concurrent request until
// it has accepted the first. So requests wait here for a free stream: on a single connection,
// net/http makes them wait. (http.HTTP2Config.StrictMaxConcurrentRequests would do the same in
// the pool. But in Go 1.26, requests that wait for a stream there count as streams, and all wait
// for ever.)
type conns struct {
	transport *egress.Transport
	base      *url.URL
	most      int // maximum number of connections

	mu      sync.Mutex
	open    []*http.ClientConn
	next    int      // the connection to wait for if none has a free stream
	dialing *dialing // nil: none
	closed  bool
}

// dialing is a connection that is being opened.
type dialing struct {
	done chan struct{}
	err  error // once done
}

const (
	dialWithin = 15 * time.Second
	// maxTries bounds how often a request is sent that did not reach a server, or that servers
	// report as unprocessed.
	maxTries = 8
)

var errClosed = errors.New("the provider is closed")

// RoundTrip sends a request. If it did not reach the server, or the server reports that it did
// not process it, it is sent again.
func (c *conns) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		conn, err := c.pick(r.Context())
		if err != nil {
			return nil, err
		}
		var wrote atomic.Bool
		answer, err := conn.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(),
			&httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})))
		if err == nil {
			return answer, nil
		}
		ended := conn.Err() != nil || isGoAway(err)
		if ended {
			c.drop(conn)
		}
		unsent := ended && !wrote.Load() && r.Context().Err() == nil
		if !unsent && !isUnprocessed(err) || try == maxTries {
			return nil, err
		}
		if r, err = anew(r); err != nil {
			return nil, err
		}
	}
}

// pick returns a connection with a free stream, or else one to wait for. It opens another if all
// are full and more are permitted, and waits for it only if there is no other.
func (c *conns) pick(ctx context.Context) (*http.ClientConn, error) {
	for {
		c.mu.Lock()
		c.open = slices.DeleteFunc(c.open, func(conn *http.ClientConn) bool { return conn.Err() != nil })
		for _, conn := range c.open {
			if conn.Available() > 0 {
				c.mu.Unlock()
				return conn, nil
			}
		}
		if c.closed {
			c.mu.Unlock()
			return nil, errClosed
		}
		if c.dialing == nil && len(c.open) < c.most {
			c.dialing = &dialing{done: make(chan struct{})}
			go c.dial(c.dialing)
		}
		if n := len(c.open); n > 0 {
			c.next++
			conn := c.open[c.next%n]
			c.mu.Unlock()
			return conn, nil
		}
		d := c.dialing
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		}
	}
}

// dial opens a connection for all waiting requests. It does not depend on the context of the
// first one.
func (c *conns) dial(d *dialing) {
	ctx, cancel := context.WithTimeout(context.Background(), dialWithin)
	defer cancel()
	conn, err := c.transport.Connect(ctx, c.base)
	c.mu.Lock()
	switch {
	case err != nil:
		d.err = err
	case c.closed:
		_ = conn.Close()
		d.err = errClosed
	default:
		c.open = append(c.open, conn)
	}
	c.dialing = nil
	c.mu.Unlock()
	close(d.done)
}

// drop stops new requests on a connection. Running ones finish; then net/http closes it.
func (c *conns) drop(conn *http.ClientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = slices.DeleteFunc(c.open, func(have *http.ClientConn) bool { return have == conn })
}

func (c *conns) close() {
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// anew returns a copy of a request with an unread body.
func anew(r *http.Request) (*http.Request, error) {
	if r.GetBody == nil {
		return nil, errors.New("the request has no body to send again")
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = body
	return r, nil
}

// isGoAway reports whether a connection takes no more requests: it got GOAWAY, or was closed
// before this request was sent. net/http has these errors only as text, which TestAPNsGoAway
// checks.
func isGoAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "received Server's graceful shutdown GOAWAY") ||
		strings.Contains(text, "client conn not usable")
}

// isUnprocessed reports whether the server did not process a request (RFC 9113, 8.7): its stream
// is above the last one of GOAWAY, or was refused.
func isUnprocessed(err error) bool {
	var e http2.StreamError
	return isGoAway(err) || errors.As(err, &e) && e.Code == http2.ErrCodeRefusedStream
}

// isStreamReset reports whether the server reset the stream, or ended the connection by GOAWAY
// with the stream not above its last one.
func isStreamReset(err error) bool {
	var e http2.StreamError
	return errors.As(err, &e) || strings.Contains(err.Error(), "GOAWAY")
}
