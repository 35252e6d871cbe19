package gateway

import (
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// behind remembers whose triggers fall due faster than they fire, and on which partition. Owners say so with their
// decisions, wherever they are. For a while no register of that tenant is taken there: each would make its
// triggers later.
type behind struct {
	of  func(trigger.Key) (partition int32)
	now func() time.Time

	mu sync.Mutex
	by map[tenantOn]backlog
}

type tenantOn struct {
	tenant    string
	partition int32
}

type backlog struct {
	late  time.Duration // the oldest trigger
	until time.Time
}

// behindFor is how long registers are refused. After that they are taken, until an owner's answer says again that
// the tenant is behind.
const behindFor = 5 * time.Second

func newBehind(of func(trigger.Key) int32, now func() time.Time) *behind {
	return &behind{of: of, now: now, by: map[tenantOn]backlog{}}
}

// note takes what the owner of a partition has said of the tenant of commands.
func (b *behind) note(partition int32, list []peer.Question) {
	for i := range list {
		if late := list[i].Decision.Behind; late > 0 {
			b.add(tenantOn{list[i].Key.Tenant(), partition}, late)
			return // all are of one tenant, and one answer is as good as the next
		}
	}
}

func (b *behind) add(on tenantOn, late time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if _, known := b.by[on]; !known {
		for other, t := range b.by {
			if now.After(t.until) {
				delete(b.by, other)
			}
		}
	}
	b.by[on] = backlog{late, now.Add(behindFor)}
}

// refusal is the answer to a register; nil if it may be taken, as any other command.
func (b *behind) refusal(c *command) *problem.Problem {
	if !c.registers() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.by[tenantOn{c.key.Tenant(), b.of(c.key)}]
	wait := t.until.Sub(b.now())
	if wait <= 0 {
		return nil
	}
	return problem.TooMany(trigger.CodeOverloaded, fmt.Sprintf("triggers of this tenant fall due faster than they "+
		"fire (the oldest is %v late, limits.behind): no register is taken until that ends",
		t.late.Round(time.Second)), wait)
}
