// Package shares keeps room for every tenant among things that go on at once and may
// hang: calls of webhooks, sends of notifications.
package shares

import (
	"context"
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

// keptFree is the part of the places that one who is alone leaves free: one in so many.
const keptFree = 16

// New makes as many places as room.
func New(room int, now func() time.Time) *Shares {
	return &Shares{room: room, now: now, by: map[string]int{}, vain: map[string]time.Time{}}
}

// Enter takes a place, and waits a moment for it; false is that the tenant has
// its share.
func (s *Shares) Enter(ctx context.Context, tenant string) bool {
	for waited := time.Duration(0); ; waited += shareEvery {
		if s.try(tenant) {
			return true
		}
		if waited >= shareWait {
			s.noteVain(tenant)
			return false
		}
		if s.rests(tenant) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(shareEvery):
		}
	}
}

func (s *Shares) try(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.last != tenant {
		if s.last != "" {
			s.changed = now
		}
		s.last = tenant
	}
	alone := s.changed.IsZero() || now.Sub(s.changed) > othersCount
	if alone && s.running >= max(1, s.room-max(1, s.room/keptFree)) ||
		!alone && s.by[tenant] >= 2*(s.room-s.running) {
		return false
	}
	s.running++
	s.by[tenant]++
	return true
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
}

// Running is how many places are taken.
func (s *Shares) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
