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

// conns sends requests to one server by a few connections of HTTP/2.
//
// A pool of net/http opens one more connection for each burst beyond what a server allows
// on those that are open. APNs takes many connections for an attack, and allows one request
// at once before the first was accepted. So requests wait here for a free stream:
// net/http makes them wait on a connection that is used by itself.
// (http.HTTP2Config.StrictMaxConcurrentRequests would do the same in the pool, but in Go 1.26
// requests that wait for a stream there count as streams, and all wait for ever.)
type conns struct {
	transport *egress.Transport
	base      *url.URL
	most      int // connections

	mu      sync.Mutex
	open    []*http.ClientConn
	next    int      // whose turn it is where none has a free stream
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
	// maxTries bounds how often a request is sent that did not reach a server, or that
	// servers say they have not processed.
	maxTries = 8
)

var errClosed = errors.New("the provider is closed")

// RoundTrip sends a request. One that the server does not have, or has not processed by its
// own words, is sent again.
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

// pick is a connection with a free stream, or one to wait at. It opens another one where
// all are full and there may be more, and waits for it only if there is none.
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

// dial opens a connection for whoever waits, however long the first of them does.
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

// drop keeps a connection from further requests. Those under way finish; then net/http
// closes it.
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

// anew is a request whose body has not been read.
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

// isGoAway says that a connection takes no more requests: it has got GOAWAY, or it was
// closed before this one was sent. net/http has these errors as texts only;
// TestAPNsGoAway holds them.
func isGoAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "received Server's graceful shutdown GOAWAY") ||
		strings.Contains(text, "client conn not usable")
}

// isUnprocessed says that the server has not processed a request (RFC 9113, 8.7): its stream is
// above the last one of GOAWAY, or was refused.
func isUnprocessed(err error) bool {
	var e http2.StreamError
	return isGoAway(err) || errors.As(err, &e) && e.Code == http2.ErrCodeRefusedStream
}

// isStreamReset says that the server has reset the stream, or ended the connection by
// GOAWAY with the stream below its last one.
func isStreamReset(err error) bool {
	var e http2.StreamError
	return errors.As(err, &e) || strings.Contains(err.Error(), "GOAWAY")
}
