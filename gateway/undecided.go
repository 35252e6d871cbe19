package gateway

import (
	"sync"
	"time"
)

// undecided counts the lines of batches that are written and not decided. A
// partition decides commands in the order of its log, so what one tenant has there
// delays every other. While other tenants write, a tenant has at most `most` such
// lines. Alone it has as many as its batches may (BatchAtOnce).
type undecided struct {
	most int
	now  func() time.Time

	mu      sync.Mutex
	fewer   *sync.Cond
	by      map[string]int
	writers [2]writer // the last two tenants that wrote, the last one first
}

type writer struct {
	tenant string
	at     time.Time
}

// besides is how long a tenant that has written counts as one who writes.
const besides = 2 * time.Second

// newUndecided makes the count. A nil one counts nothing: without log-in all are one
// tenant.
func newUndecided(most int, now func() time.Time) *undecided {
	u := &undecided{most: most, now: now, by: map[string]int{}}
	u.fewer = sync.NewCond(&u.mu)
	return u
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

// try takes room for a line.
func (u *undecided) try(tenant string) bool {
	if u == nil {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.take(tenant)
}

func (u *undecided) take(tenant string) bool {
	if u.by[tenant] >= u.most && u.shared(tenant) {
		return false
	}
	u.by[tenant]++
	return true
}

// wait takes room for a line as soon as there is some. All lines that have room end
// within ProduceWithin and AnswerWithin, if their chunks are sealed.
func (u *undecided) wait(tenant string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for !u.take(tenant) {
		u.fewer.Wait()
	}
}

// done gives the room of lines back.
func (u *undecided) done(tenant string, lines int) {
	if u == nil || lines == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by[tenant] -= lines; u.by[tenant] == 0 {
		delete(u.by, tenant)
	}
	u.fewer.Broadcast()
}

// crowds says whether a tenant's lines delay somebody else's.
func (u *undecided) crowds(tenant string) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.shared(tenant)
}
