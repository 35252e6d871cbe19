package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/slots"
)

const eventStreamType = "text/event-stream"

// sseWriter writes server-sent events (WHATWG HTML, 9.2).
type sseWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error // the caller is gone

	mu   sync.Mutex
	over bool
}

func newSSEWriter(w http.ResponseWriter) *sseWriter {
	return &sseWriter{w: w, control: http.NewResponseController(w)}
}

func (o *sseWriter) begin() {
	h := o.w.Header()
	h.Set("Content-Type", eventStreamType)
	h.Set("X-Accel-Buffering", "no") // else nginx would buffer events
	o.w.WriteHeader(http.StatusOK)
	o.flush()
}

// write gives each event a time-out, because a stream has no end to bound.
func (o *sseWriter) write(text []byte) {
	if o.err != nil {
		return
	}
	o.extend()
	if _, err := o.w.Write(text); err != nil {
		o.err = err
	}
}

// extend gives the next write its time, unless the stream is to end.
func (o *sseWriter) extend() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		_ = o.control.SetWriteDeadline(time.Now().Add(responseWithin))
	}
}

func (o *sseWriter) flush() {
	if err := o.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		o.err = err
	}
}

// endWithin is how long a stream that is ended waits for a caller that does not read.
const endWithin = time.Second

// end bounds the write that is under way, and those that follow.
func (o *sseWriter) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	_ = o.control.SetWriteDeadline(time.Now().Add(endWithin))
}

// serverSent encodes an event. An id of "" is left out.
func serverSent(id, name string, data []byte) []byte {
	if id != "" {
		id = "id: " + id + "\n"
	}
	return fmt.Appendf(nil, "%sevent: %s\ndata: %s\n\n", id, name, data)
}

// openStreams is what streams of every kind share: each tenant has a share of them, and each ends when
// the server stops or its caller may not have it any more.
type openStreams struct {
	slots    *slots.Slots
	listener Listener
	onStop   func(func()) (undo func() bool) // calls a function when the server stops
	admits   admits
}

// open counts one more stream of the caller's tenant, until done.
func (o *openStreams) open(r *request) (done func(), err error) {
	tenant := r.who.Tenant
	if !o.slots.Take(tenant) {
		return nil, problem.Unavailable(nil, "too many event streams are open")
	}
	o.listener.Streams(1)
	return func() { o.listener.Streams(-1); o.slots.Release(tenant) }, nil
}

// admitEvery is how often a stream, or another long request, asks whether its caller may still have it.
var admitEvery = 2 * time.Second

// admits asks who a caller is, as at the beginning of its stream.
type admits func(*http.Request) (auth.Caller, error)

// mayGoOn reports whether the credential still is whose it was, with the same rights. An issuer
// that does not answer takes nothing away.
func (a admits) mayGoOn(r *request) bool {
	who, err := a(r.Request)
	if p, ok := errors.AsType[*problem.Problem](err); ok && p.Status == http.StatusServiceUnavailable {
		return true
	}
	return err == nil && who.Tenant == r.who.Tenant && who.Role == r.who.Role
}

var errNoLongerAdmitted = problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "",
	"the key or token is no longer valid, or has another role; what was done before stays")

// during is the context of a long request, and what stops it. It ends when the caller may not have it any more;
// withdrawn then says why.
func (a admits) during(r *request) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	go func() {
		every := time.NewTicker(admitEvery)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				if !a.mayGoOn(r) {
					cancel(errNoLongerAdmitted)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// withdrawn is why during ended a request; nil if it did not.
func withdrawn(ctx context.Context) *problem.Problem {
	p, _ := errors.AsType[*problem.Problem](context.Cause(ctx))
	return p
}
