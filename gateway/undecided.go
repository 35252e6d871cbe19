package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/slots"
)

// undecided counts the commands that are written and not decided, lines of batches too. A
// partition decides commands in the order of its log, so what one tenant has there
// delays every other. While other tenants write, a tenant has at most `beside` such
// commands, and else at most `alone`: another one may begin to write behind them.
type undecided struct {
	beside, alone int
	now           func() time.Time

	mu      sync.Mutex
	by      map[string]int
	waiting map[string][]chan struct{} // in order; each closed when it has room
	writers [2]writer                  // the last two tenants that wrote, the last one first
}

type writer struct {
	tenant string
	at     time.Time
}

// besides is how long a tenant that has written counts as one who writes.
const besides = 2 * time.Second

// newUndecided makes the count. A nil one counts nothing: without log-in all are one
// tenant.
func newUndecided(beside, alone int, now func() time.Time) *undecided {
	return &undecided{
		beside: beside, alone: alone, now: now, by: map[string]int{}, waiting: map[string][]chan struct{}{},
	}
}

// crowded says whether so many commands of a tenant wait for room that one more is refused at once.
func (u *undecided) crowded(tenant string) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.waiting[tenant]) >= slots.MaxWaiting
}

// writes notes that a tenant writes a command.
func (u *undecided) writes(tenant string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writers[0].tenant != tenant {
		u.writers[1] = u.writers[0]
	}
	u.writers[0] = writer{tenant, u.now()}
}

// shared says whether somebody beside the tenant writes.
func (u *undecided) shared(tenant string) bool {
	for _, w := range u.writers {
		if w.tenant != tenant && w.tenant != "" && u.now().Sub(w.at) < besides {
			return true
		}
	}
	return false
}

// try takes room for a command.
func (u *undecided) try(tenant string) bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.take(tenant)
}

func (u *undecided) take(tenant string) bool {
	if len(u.waiting[tenant]) > 0 || !u.has(tenant) {
		return false
	}
	u.by[tenant]++
	return true
}

// has says whether there is room for one more.
func (u *undecided) has(tenant string) bool {
	n := u.by[tenant]
	return n < u.beside || n < u.alone && !u.shared(tenant)
}

// wait takes room for a command as soon as there is some, or returns why ctx ended. All
// commands that have room end within ProduceWithin and AnswerWithin, if their chunks are
// sealed. Who waits has its turn in order.
func (u *undecided) wait(ctx context.Context, tenant string) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	if u.take(tenant) {
		u.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	u.waiting[tenant] = append(u.waiting[tenant], turn)
	u.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	if !u.leave(tenant, turn) { // it had its turn meanwhile
		u.done(tenant, 1)
	}
	return ctx.Err()
}

// leave takes one out of those who wait; false if it waits no more.
func (u *undecided) leave(tenant string, turn chan struct{}) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := slices.Index(u.waiting[tenant], turn)
	if i < 0 {
		return false
	}
	u.waiting[tenant] = slices.Delete(u.waiting[tenant], i, i+1)
	return true
}

// done gives the room of commands back, to who waits for it.
func (u *undecided) done(tenant string, commands int) {
	if u == nil || commands == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.by[tenant] -= commands
	for len(u.waiting[tenant]) > 0 && u.has(tenant) {
		u.by[tenant]++
		close(u.waiting[tenant][0])
		u.waiting[tenant] = u.waiting[tenant][1:]
	}
	if u.by[tenant] == 0 {
		delete(u.by, tenant)
	}
	if len(u.waiting[tenant]) == 0 {
		delete(u.waiting, tenant)
	}
}

// release gives the room of commands back. Where nobody waited for the decisions, or who did has
// hung up, the commands may be undecided still, and in the way of others. Then decide waits for the
// decisions first, for at most so long, and nobody waits for it.
func (u *undecided) release(
	tenant string, commands int, awaited bool, within time.Duration, decide func(context.Context),
) {
	if u == nil || awaited || commands == 0 {
		u.done(tenant, commands)
		return
	}
	go func() {
		defer u.done(tenant, commands)
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		decide(ctx)
	}()
}
