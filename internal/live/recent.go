// Package live keeps what has just happened in a partition, for those who watch. It has no clock:
// whoever calls says when.
//
//	recent.go  Recent: what the owner of a partition keeps for the tenants that are watched
//	turn.go    Turn: what a turn adds, and what that costs
//
// # Source of truth
//
// Topic events is. A Recent is memory of one process: it begins when somebody asks for a tenant,
// and Tenant.Life changes when it had to begin anew.
//
// # Promises
//
//   - Nothing is kept, and nothing is encoded, of a tenant that nobody asks for.
//   - A fact is there only after its turn has committed.
//   - Of each tenant at most PerSecond facts a second are kept. All others are counted.
//   - Memory is bounded: most facts, most bytes, most tenants.
package live

import (
	"encoding/json"
	"sync"
)

const (
	// PerSecond bounds the facts of a tenant that a partition keeps in each second.
	PerSecond = 20
	// lease is how long a tenant is watched after somebody has asked for it.
	lease = 5_000 // ms

	mostFacts   = 1024
	mostBytes   = 1 << 20
	mostTenants = 1024
)

// Nameless stands for a tenant where a fact is of no trigger, such as a command with an invalid key that was refused.
// Such facts are for those who see all tenants alone. No tenant has such a name: no key has control characters.
const Nameless = "\x00"

// Asked is how far an asker has the facts of a tenant. The zero Life has none.
type Asked struct {
	Tenant string
	Life   int64
	Next   int64
}

// News are the facts of a tenant from Asked on. Next counts facts that were not kept, too.
type News struct {
	Life  int64             `json:"life"` // another one than was asked for: facts may be missing; 0: too many tenants
	Next  int64             `json:"next"`
	Facts []json.RawMessage `json:"facts,omitempty"`
}

// Recent keeps the recent facts of one partition. All methods may be called concurrently.
type Recent struct {
	mu      sync.Mutex
	tenants map[string]*tenant
	ring    []fact // the oldest first
	bytes   int
}

type tenant struct {
	life   int64 // when it began, in ms
	until  int64 // the end of the lease
	next   int64 // number of the next fact
	second int64
	kept   int // in that second
}

type fact struct {
	of     *tenant
	number int64
	data   json.RawMessage
}

// NewRecent makes an empty Recent.
func NewRecent() *Recent { return &Recent{tenants: map[string]*tenant{}} }

// News answers who watches tenants, and keeps their facts from now on for as long as it is asked.
func (r *Recent) News(nowMS int64, asked []Asked) []News {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(nowMS)
	out := make([]News, len(asked))
	for i, a := range asked {
		t := r.tenants[a.Tenant]
		if t == nil && len(r.tenants) == mostTenants {
			continue
		}
		if t == nil {
			t = &tenant{life: nowMS}
			r.tenants[a.Tenant] = t
		}
		t.until = nowMS + lease
		out[i] = News{Life: t.life, Next: t.next}
		if a.Life == t.life {
			out[i].Facts = r.since(t, a.Next)
		}
	}
	return out
}

func (r *Recent) since(t *tenant, next int64) (facts []json.RawMessage) {
	for _, f := range r.ring {
		if f.of == t && f.number >= next {
			facts = append(facts, f.data)
		}
	}
	return facts
}

// forget drops the tenants that nobody has asked for.
func (r *Recent) forget(nowMS int64) {
	for name, t := range r.tenants {
		if t.until < nowMS {
			delete(r.tenants, name)
		}
	}
	if len(r.tenants) == 0 {
		r.ring, r.bytes = nil, 0
	}
}
