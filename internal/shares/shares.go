// Package shares keeps room for every tenant among things that go on at once and may
// hang: calls of webhooks, sends of notifications.
package shares

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Shares keeps room for every tenant among the requests that may be under way.
// A tenant may have up to twice as many as there are places free: two thirds of
// all by itself, and two of them two fifths each. So there are always places
// free for a tenant that comes, however many endpoints of others hang, and
// nobody has to be told how many tenants there are (Choudhury and Hahne,
// Dynamic Queue Length Thresholds, 1998). Where one tenant alone has called
// anybody for long, it may have all but a sixteenth: if its calls hang, another
// that comes still finds a place, and counts from then on.
type Shares struct {
	room int
	now  func() time.Time

	mu      sync.Mutex
	running int
	by      map[string]int // tenants with requests under way: at most room
	last    string         // the tenant that came last …
	changed time.Time      // … and when that was another one than before
	left    time.Time      // when a place was given back last
	waiting []*waiter      // in the order in which they came

	vain map[string]time.Time // when a tenant last waited in vain
}

// How long others count after they have called somebody, and how long a place is
// waited for: where calls are answered it takes milliseconds until one is free.
const (
	othersCount = 10 * time.Minute
	shareWait   = 500 * time.Millisecond
	shareEvery  = 20 * time.Millisecond
	// shareRest is how long nobody waits of a tenant who has waited in vain: its calls
	// hang, and each that waits takes the place of a handler from all others.
	shareRest = 5 * time.Second
)

// A tenant that is alone leaves 1/keptFree of the places free.
const keptFree = 16

// waiter is a request that waits for a place. It has one once admitted is closed.
type waiter struct {
	tenant   string
	admitted chan struct{}
}

// New makes as many places as room.
func New(room int, now func() time.Time) *Shares {
	return &Shares{room: room, now: now, by: map[string]int{}, vain: map[string]time.Time{}}
}

// Enter takes a place, and waits a moment for it; false is that the tenant has
// its share. A tenant that is alone waits for as long as places are given back: its calls are answered, so it only has
// more of them at once than there is room for.
func (s *Shares) Enter(ctx context.Context, tenant string) bool {
	w, ok := s.ask(tenant)
	if w == nil {
		return ok
	}
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for waited := shareEvery; ; waited += shareEvery {
		select {
		case <-w.admitted:
			return true
		case <-ctx.Done():
			if s.giveUp(w) {
				s.Leave(tenant)
			}
			return false
		case <-tick.C:
		}
		if vain := waited >= shareWait && !s.moves(); vain || s.rests(tenant) {
			admitted := s.giveUp(w)
			if vain && !admitted {
				s.noteVain(tenant)
			}
			return admitted
		}
	}
}

// ask takes a place, or waits for one behind what waits of the same tenant. Without a waiter, ok is whether there is
// a place.
func (s *Shares) ask(tenant string) (w *waiter, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came(tenant)
	behind := slices.ContainsFunc(s.waiting, func(o *waiter) bool { return o.tenant == tenant })
	if !behind && s.take(tenant) {
		return nil, true
	}
	if s.resting(tenant) {
		return nil, false
	}
	w = &waiter{tenant, make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return w, false
}

// giveUp ends a wait. It reports whether there was a place in the meantime.
func (s *Shares) giveUp(w *waiter) (admitted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.waiting, w)
	if at < 0 {
		return true
	}
	s.waiting = slices.Delete(s.waiting, at, at+1)
	return false
}

// came notes which tenant came last. The caller of this and of the following holds the lock.
func (s *Shares) came(tenant string) {
	if s.last == tenant {
		return
	}
	if s.last != "" {
		s.changed = s.now()
	}
	s.last = tenant
}

func (s *Shares) alone() bool { return s.changed.IsZero() || s.now().Sub(s.changed) > othersCount }

func (s *Shares) take(tenant string) bool {
	alone := s.alone()
	if alone && s.running >= max(1, s.room-max(1, s.room/keptFree)) ||
		!alone && s.by[tenant] >= 2*(s.room-s.running) {
		return false
	}
	s.running++
	s.by[tenant]++
	return true
}

// admit gives free places to who waits, in their order.
func (s *Shares) admit() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if !s.take(w.tenant) {
			return false
		}
		close(w.admitted)
		return true
	})
}

// moves says that one tenant is alone, and that places were given back a moment ago.
func (s *Shares) moves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alone() && s.now().Sub(s.left) < shareWait
}

// noteVain notes that a tenant has waited in vain, and forgets who has rested: as many
// are known as have waited in vain within that time.
func (s *Shares) noteVain(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for t, at := range s.vain {
		if now.Sub(at) >= shareRest {
			delete(s.vain, t)
		}
	}
	s.vain[tenant] = now
}

// rests says that a tenant has waited in vain a moment ago.
func (s *Shares) rests(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resting(tenant)
}

func (s *Shares) resting(tenant string) bool {
	at, ok := s.vain[tenant]
	return ok && s.now().Sub(at) < shareRest
}

// Leave gives a place back.
func (s *Shares) Leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.by[tenant]--; s.by[tenant] == 0 {
		delete(s.by, tenant)
	}
	s.left = s.now()
	s.admit()
}

// Running is how many places are taken.
func (s *Shares) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
