package gateway

import "sync"

// slots bound what lasts long: batches and event streams. No tenant can take
// all: it may hold as many as are still free, so that others come in.
type slots struct {
	shared bool // among tenants

	mu   sync.Mutex
	free int
	by   map[string]int
}

func newSlots(n int, shared bool) *slots {
	return &slots{shared: shared, free: n, by: map[string]int{}}
}

// take takes a slot for a tenant; every one that was taken is to be released.
func (s *slots) take(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 || s.shared && s.by[tenant] >= s.free {
		return false
	}
	s.free--
	s.by[tenant]++
	return true
}

func (s *slots) release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.by[tenant]--; s.by[tenant] == 0 {
		delete(s.by, tenant)
	}
}
