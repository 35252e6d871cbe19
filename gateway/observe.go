package gateway

import (
	"net/http"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/internal/tracing"
)

// Listener is called for what the API does; metrics implement it. It must be quick and safe
// for concurrent use.
type Listener interface {
	// RequestBegan and RequestEnded are called for every request. Method and route are
	// those of the table, so there are few; "none" is a path that is not in it. Status is
	// the class, such as 2xx; "gone" if the caller left before the answer, "aborted" if the
	// answer was broken off.
	RequestBegan()
	RequestEnded(method, route, status string, took time.Duration)
	// Streams is called when an event stream opens (1) and ends (-1).
	Streams(change int)
	// StreamDropped is called when a live stream ends because its reader is too slow.
	StreamDropped()
	// QuotaRejected names the limit that refused a tenant's write here.
	QuotaRejected(limit string)
	// Audited is called for every refused attempt. onRecord is false if it was one of too
	// many.
	Audited(onRecord bool)
	// AuditRecord is called for records of topic audit: written; late (it should be written by now, and
	// is tried again); missing (there is no topic); dropped (of a refused attempt or a register: one of
	// too many, or one that Kafka did not take).
	AuditRecord(outcome string)
	// Erasures and Moves are how many users' erasures, and moves to a new zone, are not done: all
	// of the preference store's, not only those of this process. oldest is the age of the oldest.
	Erasures(pending int, oldest time.Duration)
	Moves(pending int)
	// ErasureFailed and MoveFailed are called when one could not go on and is tried again later.
	ErasureFailed()
	MoveFailed()
}

// NoListener does nothing.
type NoListener struct{}

func (NoListener) RequestBegan()                                {}
func (NoListener) RequestEnded(_, _, _ string, _ time.Duration) {}
func (NoListener) Streams(int)                                  {}
func (NoListener) StreamDropped()                               {}
func (NoListener) QuotaRejected(string)                         {}
func (NoListener) Audited(bool)                                 {}
func (NoListener) AuditRecord(string)                           {}
func (NoListener) Erasures(int, time.Duration)                  {}
func (NoListener) Moves(int)                                    {}
func (NoListener) ErasureFailed()                               {}
func (NoListener) MoveFailed()                                  {}

// observed is an answer under way, and what RequestEnded will report.
type observed struct {
	http.ResponseWriter
	route    *route // nil: a path that is not in the table
	tenant   string
	act      *act
	read     *read // of a costly route; nil until it is admitted
	pages    *pages
	held     int64 // bytes of a large answer that is no page
	span     tracing.Span
	began    time.Time
	answered time.Time // when the status was written
	status   int
	done     bool // the handler returned, and did not panic
}

// Unwrap serves http.ResponseController.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (o *observed) WriteHeader(status int) {
	if o.status == 0 && status >= http.StatusOK { // a 1xx is not the answer
		o.act.answered(o.Header(), status)
		o.status, o.answered = status, time.Now()
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observed) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	return o.ResponseWriter.Write(b)
}

// observe reports every request that h answers.
func (s *Server) observe(h func(*observed, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := &observed{ResponseWriter: w, began: time.Now()}
		s.opts.Listener.RequestBegan()
		defer s.ended(o, r)
		h(o, r)
		o.done = true
	})
}

// onRoute notes the route of a request and starts its span, in the caller's trace if it has
// one. Probes and descriptions have no span: they are frequent and are not about triggers.
func (s *Server) onRoute(o *observed, r *http.Request, to *route) {
	o.route = to
	if s.opts.Tracing == nil || to.right == 0 {
		return
	}
	caller, _ := tracing.ParseParent(r.Header.Get("Traceparent"))
	if o.span = s.opts.Tracing.Request(caller, to.method+" "+to.pattern); o.span.Recording() {
		o.span.Set(tracing.Text("http.request.method", r.Method), tracing.Text("http.route", to.pattern))
	}
}

// leastHeld is how large an answer must be to count, where it is no page of a list.
const leastHeld = 64 << 10

// hold counts a large answer until its reader has it. It reports whether there is room: whoever asks for large triggers
// and reads nothing would have them all in our memory. What answers a write is counted with its body. Operators' own
// routes are answered always. The answer of a costly read counts whatever its size, and operators' too.
func (o *observed) hold(n int64) bool {
	if o.pages == nil || o.route.writes() && o.route.verb != "reveal" {
		return true
	}
	operators := o.route.right == auth.Operate
	switch {
	case !o.route.costly && (n < leastHeld || operators):
		return true
	case operators:
		o.pages.add(o.tenant, n)
	case !o.pages.take(o.tenant, n):
		return false
	}
	o.held += n
	return true
}

// ended reports a request that has ended. A stream of events counts until its headers were
// sent, because the caller decides how long it lives.
func (s *Server) ended(o *observed, r *http.Request) {
	if o.held > 0 {
		o.pages.add(o.tenant, -o.held)
	}
	took, method, pattern := time.Since(o.began), "none", "none"
	if o.route != nil {
		method, pattern = o.route.method, o.route.pattern
	}
	counted := took
	if o.Header().Get("Content-Type") == eventStreamType {
		counted = o.answered.Sub(o.began)
	}
	status := o.class(r)
	s.opts.Listener.RequestEnded(method, pattern, status, counted)
	if o.span.Recording() {
		o.span.Set(tracing.Number("http.response.status_code", int64(o.status)),
			tracing.Text("waterclock.tenant", o.tenant))
		if status[0] < '1' || status[0] > '4' {
			o.span.Fail(status)
		}
		o.span.End()
	}
	if s.opts.LogRequests && (o.route == nil || o.route.right != 0) {
		s.log.Info("request", "trace_id", o.traceID(r), "tenant", o.tenant, "method", method, "route", pattern,
			"status", o.status, "duration_ms", float64(took.Microseconds())/1000)
	}
}

// class is the class of the answer's status.
func (o *observed) class(r *http.Request) string {
	switch {
	case !o.done:
		return "aborted"
	case o.status == 0:
		o.status = http.StatusOK // as net/http will write it
	case o.status >= 500 && r.Context().Err() != nil:
		return "gone"
	}
	return strconv.Itoa(o.status/100) + "xx"
}

// traceID is the trace of the request's span, or the caller's if the request is not
// recorded.
func (o *observed) traceID(r *http.Request) string {
	if o.span.Recording() {
		return o.span.Parent().TraceID()
	}
	caller, _ := tracing.ParseParent(r.Header.Get("Traceparent"))
	return caller.TraceID()
}
