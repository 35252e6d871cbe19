package webhook

import (
	"container/list"
	"sync"
	"time"
)

// endpoints are all that this process knows. Their number is bounded: the one
// that was used the longest ago makes room, open breakers last.
type endpoints struct {
	breaker Breaker
	most    int
	keep    time.Duration // how long an idle one is remembered
	now     func() time.Time

	mu    sync.Mutex
	by    map[endpointKey]*endpoint
	order *list.List // of known, the latest used first
	gone  []Status   // forgotten, and not yet told to others
}

type endpointKey struct{ tenant, origin string }

// known is an endpoint and when it was used.
type known struct {
	endpoint *endpoint
	used     time.Time
}

func newEndpoints(b Breaker, most int, keep time.Duration, now func() time.Time) *endpoints {
	return &endpoints{
		breaker: b, most: most, keep: keep, now: now, by: map[endpointKey]*endpoint{}, order: list.New(),
	}
}

// get is the endpoint of a tenant's origin.
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
	e.listed = s.order.PushFront(&known{e, s.now()})
	s.by[key] = e
	return e
}

// lookback is how many of the oldest are asked whether they may be forgotten,
// before one with an open breaker is.
const lookback = 64

// makeRoom forgets one endpoint: of the oldest one that is idle, else one that
// nothing is under way to. mu is held.
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

// maxGone bounds what is still to be told of forgotten endpoints. Readers drop
// the rest after a while.
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

// sweep forgets those that nobody has used for long.
func (s *endpoints) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := s.order.Back(); at != nil; {
		k, next := at.Value.(*known), at.Prev()
		if s.now().Sub(k.used) < s.keep {
			return
		}
		if !k.endpoint.busy() {
			s.forget(k.endpoint)
		}
		at = next
	}
}

// all are those known now.
func (s *endpoints) all() []*endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*endpoint, 0, len(s.by))
	for at := s.order.Front(); at != nil; at = at.Next() {
		list = append(list, at.Value.(*known).endpoint)
	}
	return list
}

// takeGone are those forgotten since the last call.
func (s *endpoints) takeGone() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.gone
	s.gone = nil
	return gone
}
