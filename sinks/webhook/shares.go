package webhook

import "sync"

// shares keeps room for every tenant among the requests that may be under way.
// A tenant may have up to twice as many as there are places free: alone two
// thirds of all, and two of them two fifths each. So there are always places
// free for a tenant that comes, however many endpoints of others hang, and
// nobody has to be told how many tenants there are (Choudhury and Hahne,
// Dynamic Queue Length Thresholds, 1998).
type shares struct {
	room int

	mu      sync.Mutex
	running int
	by      map[string]int // tenants with requests under way: at most room
}

func newShares(room int) *shares { return &shares{room: room, by: map[string]int{}} }

// enter takes a place; false is that the tenant has its share.
func (s *shares) enter(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[tenant] >= 2*(s.room-s.running) {
		return false
	}
	s.running++
	s.by[tenant]++
	return true
}

func (s *shares) leave(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.by[tenant]--; s.by[tenant] == 0 {
		delete(s.by, tenant)
	}
}
