// Package slots bounds what goes on at once, and shares it among tenants.
//
// # Promises
//
//   - Never more than n slots are held.
//   - Where slots are shared, no tenant holds more than it leaves free when it
//     takes one: another always comes in.
//   - Tenants that wait take turns, however many requests each of them has.
//   - A tenant that waits with many requests is refused beyond MaxWaiting.
package slots

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// MaxWaiting bounds the requests of one tenant that wait.
const MaxWaiting = 4096

// ErrFull says that a tenant has too many requests waiting already.
var ErrFull = errors.New("too many requests of this tenant are waiting already")

// Slots is a number of slots: requests, or bytes of them.
type Slots struct {
	shared bool // among tenants

	mu      sync.Mutex
	free    int
	by      map[string]int
	waiting map[string][]waiter
	order   []string // the tenants that wait; the first is served first
}

// waiter waits for n slots.
type waiter struct {
	n    int
	turn chan struct{} // closed when it has them
}

// New makes n slots. shared says that no tenant may take all.
func New(n int, shared bool) *Slots {
	return &Slots{shared: shared, free: n, by: map[string]int{}, waiting: map[string][]waiter{}}
}

// Take takes a slot if there is one. Each that was taken is to be released.
func (s *Slots) Take(tenant string) bool { return s.TakeN(tenant, 1) }

// TakeN takes n slots if there are so many.
func (s *Slots) TakeN(tenant string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting[tenant]) == 0 && s.take(tenant, n)
}

func (s *Slots) take(tenant string, n int) bool {
	has := s.by[tenant]
	if n > s.free || s.shared && has > 0 && has+n > s.free {
		return false
	}
	s.free -= n
	s.by[tenant] += n
	return true
}

// Wait takes a slot as soon as there is one. It fails when ctx ends, or with
// ErrFull at once.
func (s *Slots) Wait(ctx context.Context, tenant string) error { return s.WaitN(ctx, tenant, 1) }

// WaitN is Wait for n slots, which are no more than there are in all.
func (s *Slots) WaitN(ctx context.Context, tenant string, n int) error {
	s.mu.Lock()
	if len(s.waiting[tenant]) == 0 && s.take(tenant, n) {
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting[tenant]) >= MaxWaiting {
		s.mu.Unlock()
		return ErrFull
	}
	turn := make(chan struct{})
	if len(s.waiting[tenant]) == 0 {
		s.order = append(s.order, tenant)
	}
	s.waiting[tenant] = append(s.waiting[tenant], waiter{n, turn})
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !s.leave(tenant, turn) { // it was served meanwhile
		s.ReleaseN(tenant, n)
	}
	return ctx.Err()
}

// leave takes one out of those who wait; false if it waits no more.
func (s *Slots) leave(tenant string, turn chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting[tenant] {
		if w.turn == turn {
			s.waiting[tenant] = append(s.waiting[tenant][:i], s.waiting[tenant][i+1:]...)
			s.forget(tenant)
			s.serve() // who waited behind it may want less
			return true
		}
	}
	return false
}

// forget drops a tenant that waits with nothing any more.
func (s *Slots) forget(tenant string) {
	if len(s.waiting[tenant]) > 0 {
		return
	}
	delete(s.waiting, tenant)
	for i, t := range s.order {
		if t == tenant {
			s.order = append(s.order[:i], s.order[i+1:]...)
			return
		}
	}
}

// Release gives a slot back, to who waits for one.
func (s *Slots) Release(tenant string) { s.ReleaseN(tenant, 1) }

// ReleaseN gives n slots back.
func (s *Slots) ReleaseN(tenant string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.by[tenant] -= n; s.by[tenant] == 0 {
		delete(s.by, tenant)
	}
	s.serve()
}

// serve gives free slots to who waits for them.
func (s *Slots) serve() {
	for i := 0; i < len(s.order); {
		next := s.order[i]
		first := s.waiting[next][0]
		if !s.take(next, first.n) {
			i++
			continue
		}
		close(first.turn)
		s.waiting[next] = s.waiting[next][1:]
		s.order = append(append(s.order[:i:i], s.order[i+1:]...), next) // the others first
		s.forget(next)
	}
}

// Waiting says whether somebody waits for a slot.
func (s *Slots) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order) > 0
}

// Full are the tenants that would get no slot now because they have their share, in order.
func (s *Slots) Full() (tenants []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, n := range s.by {
		if s.shared && n >= s.free {
			tenants = append(tenants, tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}

// Held is how many slots a tenant has.
func (s *Slots) Held(tenant string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[tenant]
}
