package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/trigger"
)

// reads bounds costly reads: lists, forecasts, previews. Each holds a slot until its answer
// is written, and pays afterwards for what it visited.
type reads struct {
	slots  *slots.Slots
	within time.Duration // how long a read waits for a slot
	quota  *rateLimits   // triggers and occurrences per second; one read may overdraw it

	pages     *pages
	gathering *slots.Slots // one slot for each list that is being built

	// What one read may cost.
	visits int64
	time   time.Duration
	bytes  int64

	listener Listener
}

// pages counts the bytes of list pages, from when they are built until their readers have
// them; and the bytes of bodies. No tenant holds more than it leaves free when it asks.
type pages struct {
	most int64

	mu  sync.Mutex
	sum int64
	by  map[string]int64
}

func newPages(most int64) *pages { return &pages{most: most, by: map[string]int64{}} }

// free is how much one more page of a tenant may take; 0: nothing.
func (p *pages) free(tenant string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.most-p.sum-p.by[tenant])
}

// take adds bytes of a tenant if they are free, or if nobody holds any: then an answer may be larger than all.
func (p *pages) take(tenant string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sum > 0 && p.sum+p.by[tenant]+n > p.most {
		return false
	}
	p.sum += n
	p.by[tenant] += n
	return true
}

func (p *pages) add(tenant string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum += n
	if p.by[tenant] += n; p.by[tenant] == 0 {
		delete(p.by, tenant)
	}
}

// gatherAtOnce bounds the lists and forecasts that are being built, because a page then has
// its bytes in memory several times.
const gatherAtOnce = 8

// read is one costly read under way.
type read struct {
	of     *reads
	tenant string
	cost   *peer.Budget
	more   int64 // visits that no scan counts
	held   atomic.Int64
	ended  bool

	// What was read from the end of a topic: records, and bytes.
	back, backBytes atomic.Int64
}

// How long a costly read waits for a slot, and how many seconds' worth of its
// tenant's reads it may use at once.
const (
	waitForRead = 2 * time.Second
	readBurst   = 10
)

func newReads(o *Options) *reads {
	return &reads{
		slots: slots.New(o.Reads, o.Auth != nil), within: waitForRead,
		quota:     newRateLimits(o.ReadRate, readBurst, o.Now),
		pages:     newPages(o.PagesInFlight),
		gathering: slots.New(gatherAtOnce, o.Auth != nil),
		visits:    o.ReadBudget, time: o.ReadTime, bytes: o.PageBytes,
		listener: o.Listener,
	}
}

// begin admits a read, or says why not.
func (rs *reads) begin(ctx context.Context, tenant string, budget *peer.Budget) (*read, *problem.Problem) {
	if p := rs.overdrawn(tenant); p != nil {
		return nil, p
	}
	ctx, cancel := context.WithTimeout(ctx, rs.within)
	defer cancel()
	if err := rs.slots.Wait(ctx, tenant); err != nil {
		if errors.Is(err, slots.ErrFull) || errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return nil, problem.Unavailable(err, "too many lists, forecasts and previews are under way "+
			"(limits.reads): try again with fewer at once")
	}
	one := &read{of: rs, tenant: tenant, cost: budget}
	budget.Taken = one.taken
	return one, nil
}

// taken counts bytes of the answer.
func (r *read) taken(n int64) {
	r.held.Add(n)
	r.of.pages.add(r.tenant, n)
}

// holds counts the whole answer, of n bytes, where not all of it was counted when it was built.
func (r *read) holds(n int64) {
	if r != nil && !r.ended && n > r.held.Load() {
		r.taken(n - r.held.Load())
	}
}

// size is about the length of the answer.
func (r *read) size() int64 { return r.held.Load() + r.held.Load()/8 }

// gather runs f, which builds a list, within the free bytes.
func (r *read) gather(ctx context.Context, f func() error) error {
	if err := r.of.gathering.Wait(ctx, r.tenant); err != nil {
		return problem.Unavailable(nil, "too many lists and forecasts are being built: try again")
	}
	defer r.of.gathering.Release(r.tenant)
	free := r.of.pages.free(r.tenant)
	if free == 0 {
		return pagesUnread()
	}
	r.cost.Bytes = min(r.cost.Bytes, max(1, free/gatherAtOnce))
	return f()
}

func pagesUnread() *problem.Problem {
	return problem.Unavailable(nil, "pages that their readers have not received yet use all of "+
		"limits.pages_in_flight: read your pages, then try again")
}

// charge adds visits that no scan counts.
func (r *read) charge(n int) {
	if r != nil {
		r.more += int64(n)
	}
}

// chargePage charges a page of the history. One that was cut off costs what was asked for: nobody knows how much of it
// was read.
func (r *read) chargePage(visited, asked int, err error) {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		visited = asked
	}
	r.charge(visited)
}

// end releases what a read held, and charges its tenant.
func (r *read) end() {
	if r == nil || r.ended {
		return
	}
	r.ended = true
	r.of.pages.add(r.tenant, -r.held.Load())
	r.of.slots.Release(r.tenant)
	r.of.quota.charge(r.tenant, leastCost+r.cost.Cost()+r.more)
}

// leastCost is the least charge of a costly read: a hundred triggers.
const leastCost = 100

// costly runs a handler within the bounds of costly reads.
func (rs *reads) costly(w http.ResponseWriter, r *request, h handler) error {
	one, p := rs.begin(r.Context(), r.who.Tenant, &peer.Budget{
		Visits: rs.visits, Time: rs.time, Bytes: rs.bytes, Operator: r.who.May(auth.Operate),
	})
	if p != nil {
		return p
	}
	defer one.end()
	r.read = one
	if o, ok := w.(*observed); ok {
		o.read = one
	}
	return h(w, r)
}

// repeat admits a read that is answered with what another caller has got, or says why not. It visits nothing.
func (rs *reads) repeat(tenant string) error {
	if p := rs.overdrawn(tenant); p != nil {
		return p
	}
	rs.quota.charge(tenant, 1)
	return nil
}

// overdrawn refuses a tenant that has used up its rate of reads.
func (rs *reads) overdrawn(tenant string) *problem.Problem {
	p := rs.quota.overdrawn(tenant)
	if p != nil {
		rs.listener.QuotaRejected(limitReads)
	}
	return p
}

// limitReads is the name of the limit in metrics and settings.
const limitReads = "reads"

// overdrawn refuses a tenant that has visited more than its rate allows, until its balance
// is positive.
func (l *rateLimits) overdrawn(tenant string) *problem.Problem {
	limiter := l.limiter(tenant)
	if limiter == nil {
		return nil
	}
	tokens := limiter.TokensAt(l.now())
	if tokens > 0 {
		return nil
	}
	wait := time.Duration((1 - tokens) / float64(limiter.Limit()) * float64(time.Second))
	return problem.TooMany(trigger.CodeQuotaExceeded, fmt.Sprintf(
		"the tenant's limit reads, %g triggers and occurrences a second visited by lists, forecasts and previews, "+
			"is reached", float64(limiter.Limit())), wait)
}

// pay charges a tenant for a part of a request that goes on for long, and waits until its balance is positive.
func (l *rateLimits) pay(ctx context.Context, tenant string, n int) error {
	l.charge(tenant, int64(n))
	for l.overdrawn(tenant) != nil {
		if wait.For(ctx, payEvery); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// payEvery is how soon the balance is looked at once more.
const payEvery = 50 * time.Millisecond

// charge takes tokens, even if the balance becomes negative.
func (l *rateLimits) charge(tenant string, n int64) {
	limiter := l.limiter(tenant)
	if limiter == nil {
		return
	}
	now, most := l.now(), int64(max(1, limiter.Burst()))
	for ; n > 0; n -= most { // a limiter gives no more at once
		limiter.ReserveN(now, int(min(n, most)))
	}
}
