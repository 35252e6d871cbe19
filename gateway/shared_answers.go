package gateway

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/gzipped"
)

// sharedAnswers are the recent answers of routes that say so (route.shared). Every open console repeats the same reads,
// and one answer serves all callers of one tenant and role: those that ask while it is made, and those that ask within
// answerAge of whoever asked first. Only complete answers of status 200 are kept.
type sharedAnswers struct {
	now      func() time.Time
	panicked func(*http.Request, any) // logs a panic of a handler
	reads    *reads

	mu    sync.Mutex
	known map[askedFor]*sharedAnswer // also those that are being made
	held  int                        // bytes of those that are kept
}

// askedFor is all that the answer of a shared route depends on.
type askedFor struct {
	tenant string
	role   auth.Role
	path   string
	query  string // in the order of names
	gzip   bool
}

// Bounds of the answers that are kept. A tenant has no more of them than it leaves free for others.
const (
	answerAge       = time.Second
	mostAnswers     = 256
	mostAnswerBytes = 2 << 20 // of one: a list of 1,000 partitions has 300 KB
	mostBytesOfAll  = 8 << 20
	mostQuestion    = 1 << 10 // bytes of a path and its query
)

// sharedAnswer is an answer, also while it is made. Its handler writes to it as to a caller.
type sharedAnswer struct {
	at   time.Time     // when it was asked for
	done chan struct{} // closed when all else is there

	// Of sharedAnswers.mu.
	cancel  func() // ends its making
	waiting int    // callers, until it is made
	made    bool
	kept    int // its bytes in sharedAnswers.held

	header http.Header
	status int
	body   []byte
	err    error
}

func (a *sharedAnswer) Header() http.Header { return a.header }

func (a *sharedAnswer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *sharedAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	return len(b), nil
}

// askedOnce are parameters of questions that no console repeats: of one trigger, of a further page, of a time. Their
// answers would take the room of others, and who has just acted on a trigger asks how it is now.
var askedOnce = []string{"trigger_id", "cursor", "from", "to"}

// mayShare reports whether a request is content with what another caller has got. Where the route has the parameter
// fresh, only fresh=false says so.
func (r *route) mayShare(req *request) bool {
	if !r.shared || req.Method != http.MethodGet || len(req.URL.Path)+len(req.URL.RawQuery) > mostQuestion ||
		slices.ContainsFunc(askedOnce, req.query.Has) {
		return false
	}
	has := slices.ContainsFunc(r.doc.query, func(p parameter) bool { return p.name == "fresh" })
	return !has || req.stale()
}

// send answers with what another caller has just got or is waiting for, or else with what the handler answers.
func (s *sharedAnswers) send(w *observed, r *request, h handler) error {
	q := asks(r)
	a, making := s.find(r.Context(), q)
	first := making != nil
	switch {
	case a == nil:
		return h(w, r)
	case first:
		alone := *r
		alone.Request = r.WithContext(making)
		alone.act = nil // it belongs to this caller, who may leave before others have the answer
		go s.run(q, a, &alone, h)
	case w.route.costly:
		if err := s.reads.repeat(r.who.Tenant); err != nil {
			s.leave(q, a)
			return err
		}
	}
	select {
	case <-a.done:
	case <-r.Context().Done():
		s.leave(q, a)
		return r.Context().Err()
	}
	switch {
	case a.err != nil && !first && !a.failed():
		return h(w, r) // each caller is refused for what it asks itself, and that is on record
	case a.err != nil:
		return a.err
	case !w.hold(int64(len(a.body))):
		return pagesUnread()
	}
	for name, values := range a.header {
		w.Header()[name] = slices.Clone(values)
	}
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, _ = w.Write(a.body)
	return nil
}

// asks is the question of a request.
func asks(r *request) askedFor {
	return askedFor{r.who.Tenant, r.who.Role, r.URL.EscapedPath(), r.query.Encode(), gzipped.Taken(r.Header)}
}

// failed reports whether the answer failed for a reason that has nothing to do with who asked.
func (a *sharedAnswer) failed() bool {
	status := problem.Of(a.err).Status
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// find returns the answer to a question; nil if there is no room for one more. It may not be made yet. The first caller
// is given the context within which to make it, because that does not end with the caller's own.
func (s *sharedAnswers) find(ctx context.Context, q askedFor) (a *sharedAnswer, making context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.known[q]; a != nil && s.recent(a) {
		a.waiting++
		return a, nil
	}
	s.drop(func(_ askedFor, a *sharedAnswer) bool { return !s.recent(a) })
	if answers, _ := s.of(q.tenant); len(s.known)+answers >= mostAnswers {
		return nil, nil
	}
	a = &sharedAnswer{at: s.now(), waiting: 1, done: make(chan struct{}), header: http.Header{}}
	making, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.known[q] = a
	return a, making
}

func (s *sharedAnswers) recent(a *sharedAnswer) bool {
	age := s.now().Sub(a.at)
	return age >= 0 && age < answerAge
}

// leave is called by who does not wait any more. The last one ends what is made for nobody.
func (s *sharedAnswers) leave(q askedFor, a *sharedAnswer) {
	s.mu.Lock()
	a.waiting--
	last := a.waiting == 0 && !a.made
	if last && s.known[q] == a {
		delete(s.known, q)
	}
	s.mu.Unlock()
	if last {
		a.cancel()
		<-a.done
	}
}

// run calls the handler for all who wait: it goes on when the first of them has left.
func (s *sharedAnswers) run(q askedFor, a *sharedAnswer, r *request, h handler) {
	defer a.cancel()
	defer func() {
		if v := recover(); v != nil {
			s.panicked(r.Request, v)
			a.err = problem.Internal(errPanicked)
		}
		s.keep(q, a)
	}()
	a.err = h(a, r)
}

var errPanicked = errors.New("its handler panicked")

// keep hands an answer to those who wait, and keeps it for those who come if it may be.
func (s *sharedAnswers) keep(q askedFor, a *sharedAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(a.done)
	a.made = true
	n := len(a.body)
	_, bytes := s.of(q.tenant)
	switch {
	case s.known[q] != a: // it is too old by now, or forgotten
	case a.err != nil, a.status != http.StatusOK, n > mostAnswerBytes, s.held+bytes+n > mostBytesOfAll:
		delete(s.known, q)
	default:
		a.kept = n
		s.held += n
	}
}

// of counts a tenant's answers, and the bytes of those that are kept. The caller holds the mutex.
func (s *sharedAnswers) of(tenant string) (answers, bytes int) {
	for q, a := range s.known {
		if q.tenant == tenant {
			answers++
			bytes += a.kept
		}
	}
	return answers, bytes
}

// forget makes whoever asks from now on ask anew.
func (s *sharedAnswers) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(q askedFor, _ *sharedAnswer) bool { return q.path == path })
}

// drop lets go of answers. The caller holds the mutex.
func (s *sharedAnswers) drop(which func(askedFor, *sharedAnswer) bool) {
	maps.DeleteFunc(s.known, func(q askedFor, a *sharedAnswer) bool {
		if !which(q, a) {
			return false
		}
		s.held -= a.kept
		return true
	})
}
