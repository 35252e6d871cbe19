package webhook

import (
	"container/list"
	"sync"
	"time"
)

// endpoints holds all endpoints of this process. Their number is bounded. The one used least
// recently is dropped, and open breakers last.
type endpoints struct {
	breaker Breaker
	most    int
	keep    time.Duration // how long an idle endpoint is kept
	now     func() time.Time

	mu    sync.Mutex
	by    map[endpointKey]*endpoint
	order *list.List // of known, most recently used first
	gone  []Status   // dropped, and not published as gone yet
}

type endpointKey struct{ tenant, origin string }

// known is an endpoint and the time of its last use.
type known struct {
	endpoint *endpoint
	used     time.Time
}

func newEndpoints(b Breaker, most int, keep time.Duration, now func() time.Time) *endpoints {
	return &endpoints{
		breaker: b, most: most, keep: keep, now: now, by: map[endpointKey]*endpoint{}, order: list.New(),
	}
}

// get returns the endpoint of a tenant's origin.
func (s *endpoints) get(tenant, origin string) *endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := endpointKey{tenant, origin}
	if e := s.by[key]; e != nil {
		e.listed.Value.(*known).used = s.now()
		s.order.MoveToFront(e.listed)
		return e
	}
	if len(s.by) >= s.most {
		s.makeRoom()
	}
	e := newEndpoint(tenant, origin, s.breaker)
	e.now = s.now
	e.listed = s.order.PushFront(&known{e, s.now()})
	s.by[key] = e
	return e
}

// lookback is how many of the oldest endpoints are checked for an idle one, before one with an
// open breaker is dropped.
const lookback = 64

// makeRoom drops one endpoint: an idle one among the oldest, or else one without running
// requests. mu is held.
func (s *endpoints) makeRoom() {
	var second *endpoint
	at := s.order.Back()
	for i := 0; at != nil; i, at = i+1, at.Prev() {
		e := at.Value.(*known).endpoint
		if e.idle() {
			s.forget(e)
			return
		}
		if second == nil && !e.busy() {
			second = e
		}
		if i >= lookback && second != nil {
			break
		}
	}
	if second != nil {
		s.forget(second)
	}
}

// maxGone bounds the dropped endpoints that are still to be published. Readers drop the rest
// after a while.
const maxGone = 10_000

func (s *endpoints) forget(e *endpoint) {
	delete(s.by, endpointKey{e.tenant, e.origin})
	s.order.Remove(e.listed)
	e.mu.Lock()
	published := !e.at.IsZero()
	e.mu.Unlock()
	if published && len(s.gone) < maxGone {
		s.gone = append(s.gone, Status{Tenant: e.tenant, Origin: e.origin})
	}
}

// sweep drops endpoints that have been unused for long. One whose breaker is open is kept for as
// long as it is open, and then for as long as others, so that it lets out probes first.
func (s *endpoints) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.order.Back(); at != nil; {
		k, next := at.Value.(*known), at.Prev()
		unused := s.now().Sub(k.used)
		if unused < s.keep {
			return
		}
		if k.endpoint.idle() || unused >= s.keep+s.breaker.Open && !k.endpoint.busy() {
			s.forget(k.endpoint)
		}
		at = next
	}
}

// all returns the current endpoints.
func (s *endpoints) all() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*endpoint, 0, len(s.by))
	for at := s.order.Front(); at != nil; at = at.Next() {
		list = append(list, at.Value.(*known).endpoint)
	}
	return list
}

// takeGone returns the endpoints dropped since the last call, without those that were made again.
func (s *endpoints) takeGone() (gone []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gone {
		if s.by[endpointKey{g.Tenant, g.Origin}] == nil {
			gone = append(gone, g)
		}
	}
	s.gone = nil
	return gone
}

// putBack takes what could not be published as gone. takeGone returns it again.
func (s *endpoints) putBack(gone []Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(gone, s.gone...)
	s.gone = s.gone[:min(len(s.gone), maxGone)]
}
