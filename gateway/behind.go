package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// behind remembers whose triggers fall due faster than they fire. Owners say so with their decisions, wherever
// they are. For a while no register of such a tenant is taken: each would make its triggers later.
type behind struct {
	now func() time.Time

	mu sync.Mutex
	by map[string]behindTenant
}

type behindTenant struct {
	late  time.Duration // the oldest trigger
	until time.Time
}

// behindFor is how long registers are refused. Those that come then are taken until an owner answers anew, which
// looks as often.
const behindFor = 5 * time.Second

func newBehind(now func() time.Time) *behind { return &behind{now: now, by: map[string]behindTenant{}} }

// note takes what owners have said of the tenants of commands.
func (b *behind) note(list []peer.Question) {
	for i := range list {
		if late := list[i].Decision.Behind; late > 0 {
			b.add(list[i].Key.Tenant(), late)
			return // all are of one tenant, and one answer is as good as the next
		}
	}
}

func (b *behind) add(tenant string, late time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if _, known := b.by[tenant]; !known {
		for other, t := range b.by {
			if now.After(t.until) {
				delete(b.by, other)
			}
		}
	}
	b.by[tenant] = behindTenant{late, now.Add(behindFor)}
}

// refusal is the answer to a register of a tenant; nil if it is not behind.
func (b *behind) refusal(tenant string) *problem.Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.by[tenant]
	wait := t.until.Sub(b.now())
	if wait <= 0 {
		return nil
	}
	return problem.TooMany(trigger.CodeOverloaded, fmt.Sprintf("triggers of this tenant fall due faster than they "+
		"fire (the oldest is %v late, limits.behind): no register is taken until that ends",
		t.late.Round(time.Second)), wait)
}
