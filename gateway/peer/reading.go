package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/trigger"
)

// computing is held by who scans a partition for a reader: half of the
// processors, so that the engine always has the others. A scan rests with its slot
// for as long as it computed, since brokers and collectors of garbage compute too.
// Then it gives the slot back, and tenants take turns, so that one's long scans delay
// another's short one by a slice each.
var computing = slots.New(max(1, runtime.GOMAXPROCS(0)/2), true)

// slice is how long a scan computes before another's turn.
const slice = 5 * time.Millisecond

// Budget is what the reads of one request may cost, in all partitions together,
// and what they did cost. It is shared by the scans of the request.
type Budget struct {
	Visits int64         // triggers and occurrences; 0: no bound
	Time   time.Duration // of computing; 0: no bound
	Bytes  int64         // of stored triggers in one page; 0: no bound

	// Operator: the caller may see all tenants. The others are told of their own rows alone.
	Operator bool

	// Taken hears of the bytes that a page holds, item by item; nil: nobody does.
	Taken func(n int64)

	visited atomic.Int64
	own     atomic.Int64 // of visited, the caller's own
	spent   atomic.Int64 // ns

	// Of both, what was read in vain and is read again: it is charged, and does not count against the budget.
	retried     atomic.Int64
	retriedTime atomic.Int64 // ns

	// What instances that read just now have borrowed (loans.go).
	lending  sync.Mutex
	loans    int
	lent     atomic.Int64 // visits
	lentTime atomic.Int64 // ns
}

// Visited is how many triggers and occurrences were visited so far.
func (b *Budget) Visited() int64 { return b.visited.Load() }

// left is what is left of visits and of time; 0: no bound.
func (b *Budget) left() (visits int64, d time.Duration) {
	if b.Visits > 0 {
		visits = max(1, b.Visits-b.counted())
	}
	if b.Time > 0 {
		d = max(1, b.Time-b.countedTime())
	}
	return visits, d
}

// leastShare is of the bytes of a page what any partition may fill.
const leastShare = 64 << 10

// share is what one of n partitions may fill of a page's bytes: twice the mean,
// since a page ends where the first of them has more.
func (b *Budget) share(n int) int64 {
	if b.Bytes == 0 {
		return 0
	}
	return max(leastShare, 2*b.Bytes/int64(n))
}

// over says that more was visited, or computed, than may be.
func (b *Budget) over() bool { return b.overBeside(0, 0) }

// mustEnd is over for who reads beside other instances: what they have borrowed is theirs.
func (b *Budget) mustEnd() bool { return b.overBeside(b.lent.Load(), b.lentTime.Load()) }

func (b *Budget) overBeside(visits, spent int64) bool {
	return b.Visits > 0 && b.counted()+visits > b.Visits || b.Time > 0 && b.countedTime()+time.Duration(spent) > b.Time
}

// counted and countedTime are what counts against the budget so far.
func (b *Budget) counted() int64 { return b.visited.Load() - b.retried.Load() }

func (b *Budget) countedTime() time.Duration {
	return time.Duration(b.spent.Load() - b.retriedTime.Load())
}

// retries says that a part of what was read, so many visits, is read once more.
func (b *Budget) retries(visited, own int64, spent time.Duration) {
	b.retried.Add(visited)
	b.retriedTime.Add(int64(spent))
	b.own.Add(-own)
}

// found counts the caller's own among what was visited.
func (b *Budget) found(n int64) { b.own.Add(n) }

// used adds what another instance spent.
func (b *Budget) used(visited int64, spent time.Duration) {
	b.visited.Add(visited)
	b.spent.Add(int64(spent))
}

// tooMuch is the answer to a request that met its budget. Rows of other tenants, and the time that
// they took, are for operators: others could find out by them when another tenant's triggers fire.
func (b *Budget) tooMuch(instead string) *problem.Problem {
	visited, of := b.own.Load(), "of your triggers and occurrences"
	if b.Operator {
		visited, of = b.counted(), fmt.Sprintf("triggers and occurrences, %s of computing",
			b.countedTime().Round(time.Millisecond))
	}
	p := problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", fmt.Sprintf(
		"this read stopped after %d %s: its limits are limits.read_budget, %d, and limits.read_time, %s; %s",
		visited, of, b.Visits, b.Time, instead))
	p.Visited = visited
	return p
}

// scan is one partition's part of a read: it counts, and takes its turns.
type scan struct {
	ctx     context.Context //nolint:containedctx // of one read, which the scan is
	tenant  string
	budget  *Budget
	inside  bool
	since   time.Time
	owed    time.Duration // of rest, for the turns that ended before their slice was over
	spent   time.Duration // in all turns that are over
	visited int64
	over    bool // the budget was met: what comes next was not read
	err     error
}

// visit counts n triggers or occurrences. False: the scan ends, in the error if
// there is one.
func (s *scan) visit(n int) bool {
	s.budget.visited.Add(int64(n))
	s.visited += int64(n)
	if s.over = s.over || s.budget.mustEnd(); s.over {
		return false
	}
	return s.turn()
}

// turn waits for a slot where the scan has none, or has had it for its time.
func (s *scan) turn() bool {
	took := s.owed + time.Since(s.since)
	if s.inside && took < slice {
		return true
	}
	if s.inside {
		s.note()
		s.owed = 0
		time.Sleep(min(took, 4*slice))
		s.since = time.Now()
		if !computing.Waiting() {
			s.err = s.ctx.Err() // a scan that ends with its context has not seen all
			return s.err == nil
		}
		computing.Release(s.tenant)
		s.inside = false
	}
	if s.err = computing.Wait(s.ctx, s.tenant); s.err != nil {
		if errors.Is(s.err, slots.ErrFull) {
			s.err = problem.Unavailable(nil, "too many reads of this tenant wait")
		}
		return false
	}
	s.inside, s.since = true, time.Now()
	return true
}

// Compute runs f with a slot of those who compute: for what a reader wants computed
// that no scan does.
func (b *Budget) Compute(ctx context.Context, tenant string, f func()) error {
	s := scan{ctx: ctx, tenant: tenant, budget: b}
	defer s.end()
	if !s.turn() {
		return s.err
	}
	f()
	return nil
}

// Cost is what the request is charged, in visits: those that it made, or as many
// as its computing would have made.
func (b *Budget) Cost() int64 {
	return max(b.visited.Load(), b.spent.Load()/int64(visitTakes))
}

// visitTakes is about what a visit takes: 3 µs of a trigger, 2 µs of an occurrence.
const visitTakes = 5 * time.Microsecond

// note adds the time since the turn began.
func (s *scan) note() {
	now := time.Now()
	s.budget.spent.Add(int64(now.Sub(s.since)))
	s.spent += now.Sub(s.since)
	s.since = now
}

// computed is how long the scan has computed so far.
func (s *scan) computed() time.Duration {
	if !s.inside {
		return s.spent
	}
	return s.spent + time.Since(s.since)
}

// end gives the slot back.
func (s *scan) end() {
	if s.inside {
		s.owed += time.Since(s.since)
		s.note()
		computing.Release(s.tenant)
		s.inside = false
	}
}

// storedBytes is about what a trigger takes in memory.
func storedBytes(s *trigger.State) int64 {
	n := s.SummarySize() + specBytes(&s.Spec)
	for i := range s.Live {
		if was := s.Live[i].Was; was != nil {
			n += specBytes(was)
		}
	}
	return int64(n)
}

func specBytes(s *trigger.Spec) int {
	n := len(s.Payload)
	for i := range s.Headers {
		n += len(s.Headers[i].Key) + len(s.Headers[i].Value)
	}
	for i := range s.Tags {
		n += len(s.Tags[i].Key) + len(s.Tags[i].Value)
	}
	return n
}
