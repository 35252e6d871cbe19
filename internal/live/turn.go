package live

import "strings"

// Turn collects the facts of a turn that has not committed yet. A nil Turn collects nothing:
// nobody watches.
type Turn struct {
	tenants map[string]*share
	facts   []collected
}

// share is what a turn has of one tenant.
type share struct {
	facts int64
	room  int // facts that may still be kept
}

type collected struct {
	tenant string
	at     int64 // among the tenant's facts of the turn
	data   []byte
}

// Begin begins a turn. It returns nil if nobody watches.
func (r *Recent) Begin(nowMS int64) *Turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tenants) == 0 {
		return nil
	}
	if r.forget(nowMS); len(r.tenants) == 0 {
		return nil
	}
	turn := &Turn{tenants: make(map[string]*share, len(r.tenants))}
	for name, t := range r.tenants {
		room := PerSecond
		if t.second == nowMS/1000 {
			room -= t.kept
		}
		turn.tenants[name] = &share{room: room}
	}
	return turn
}

// Wants counts a fact of a tenant, and reports whether it is to be kept. Keep must follow if it is.
func (t *Turn) Wants(tenant string) bool {
	if t == nil {
		return false
	}
	s := t.tenants[tenant]
	if s == nil {
		return false
	}
	s.facts++
	return s.room > 0
}

// Keep keeps the fact that Wants has counted. The texts may lie in memory that is used for other
// texts afterwards.
func (t *Turn) Keep(tenant string, data []byte) {
	s := t.tenants[tenant]
	s.room--
	t.facts = append(t.facts, collected{strings.Clone(tenant), s.facts - 1, append([]byte(nil), data...)})
}

// Commit shows the facts of a turn that has committed.
func (r *Recent) Commit(nowMS int64, turn *Turn) {
	if turn == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range turn.facts {
		t := r.tenants[c.tenant]
		if t == nil {
			continue
		}
		if second := nowMS / 1000; t.second != second {
			t.second, t.kept = second, 0
		}
		t.kept++
		r.ring = append(r.ring, fact{t, t.next + c.at, c.data})
		r.bytes += len(c.data)
	}
	for name, s := range turn.tenants {
		if t := r.tenants[name]; t != nil {
			t.next += s.facts
		}
	}
	r.trim()
}

// trim drops the oldest facts while there are too many.
func (r *Recent) trim() {
	drop := 0
	for ; drop < len(r.ring) && (len(r.ring)-drop > mostFacts || r.bytes > mostBytes); drop++ {
		r.bytes -= len(r.ring[drop].data)
	}
	if drop > 0 {
		r.ring = append([]fact(nil), r.ring[drop:]...)
	}
}
