// Package quota enforces the limits of tenants, also of those that write to Kafka directly. It
// counts and judges; pipeline/admit.go refuses the register. Requests over HTTP have rates of
// their own (gateway/rate_limits.go).
//
// # What holds
//
// A process enforces a limit over all partitions that it owns together, in the share of the
// partitions that it owns. One that owns all enforces the limit exactly, however many
// partitions there are. With several processes a tenant whose keys spread evenly meets its
// limit within a few percent, and one whose keys lie on few partitions meets it early: at
// the share of their owner. A share is at least one pending trigger, so n processes together
// may let n-1 more through.
//
// # A register counts when it was appended
//
// Registers are counted in windows of their append time. So the order in which partitions
// are read does not matter, and a backlog is judged by its arrival and not by its reading.
// A window is ten seconds, longer if less than one register may come in ten seconds.
// Around the border of two windows a tenant may register for twenty seconds at once.
// The counts are not stored: a new owner begins with none.
package quota

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Limit is what one tenant may use; 0 means no limit.
type Limit struct {
	Rate       float64 // registers per second
	MaxPending int64
}

// Limits lists the limits that can refuse a register.
var Limits = []string{Rate, MaxPending}

// The limits, as settings and metrics name them.
const (
	Rate       = "rate"
	MaxPending = "max_pending"
)

// These bound the windows: how long one is at least, and how many are kept.
const (
	shortest   = 10 * time.Second
	maxWindows = 10_000
)

// Ledger counts what tenants use of one process. It may be used by several partitions at
// once.
type Ledger struct {
	of         func(tenant string) Limit
	partitions int32 // of the cluster

	mu       sync.Mutex
	owned    int32
	pending  map[string]int64 // number of triggers, by tenant with a limit
	admitted map[window]int64 // number of registers
}

// window is a span of append times: the n-th of its length since 1970.
type window struct {
	tenant string
	length time.Duration
	n      int64
}

// New returns the ledger of a process. A nil ledger, of a nil function, bounds nobody.
func New(of func(tenant string) Limit, partitions int32) *Ledger {
	if of == nil {
		return nil
	}
	return &Ledger{of: of, partitions: partitions, pending: map[string]int64{}, admitted: map[window]int64{}}
}

// Share is what one partition uses. It must be left before the partition is opened anew.
// It belongs to one goroutine. A nil share bounds nobody.
type Share struct {
	ledger  *Ledger
	joined  bool
	pending map[string]int64
	turn    []window // of the registers admitted by the turn under way

	// admitted is the tenant of a register that was admitted and is not Moved yet. The ledger counts
	// it as pending already: two partitions must not both take the last that is left. Empty for none.
	admitted string
}

// Share returns the share of a partition that is about to open. What Moved says of it
// counts from Join on.
func (l *Ledger) Share() *Share {
	if l == nil {
		return nil
	}
	return &Share{ledger: l, pending: map[string]int64{}}
}

// bounds reports whether the number of a tenant's triggers is limited.
func (s *Share) bounds(tenant string) bool { return s != nil && s.ledger.of(tenant).MaxPending > 0 }

// Join says that the process owns the partition.
func (s *Share) Join() { s.count(1) }

// Leave takes back what the partition uses: it is closed. The turn under way did not commit.
func (s *Share) Leave() {
	if s == nil || !s.joined {
		return
	}
	s.count(-1)
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	s.release()
	for _, w := range s.turn {
		l.spend(w, -1)
	}
	s.turn = nil
}

// release takes back the count of a register that was admitted and then refused for another
// reason. The caller holds mu.
func (s *Share) release() {
	if s.admitted != "" {
		s.ledger.add(s.admitted, -1)
		s.admitted = ""
	}
}

func (s *Share) count(sign int64) {
	if s == nil {
		return
	}
	s.joined = sign > 0
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned += int32(sign)
	for tenant, n := range s.pending {
		l.add(tenant, sign*n)
	}
}

// Moved counts a trigger of a tenant that begins or ends.
func (s *Share) Moved(tenant string, was, is trigger.Status) {
	if Alive(was) == Alive(is) || !s.bounds(tenant) {
		return
	}
	n := int64(1)
	if Alive(was) {
		n = -1
	}
	s.pending[tenant] += n
	if !s.joined {
		return
	}
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if n > 0 && s.admitted == tenant {
		s.admitted = "" // it is counted
		return
	}
	s.ledger.add(tenant, n)
}

// Alive reports whether a trigger counts as pending.
func Alive(s trigger.Status) bool { return s != 0 && !s.Finished() }

// Admit reports whether a tenant may register a trigger now, and else names the limit that
// is met. known says that the trigger exists already: a replacement adds nothing.
func (s *Share) Admit(tenant string, appended trigger.Instant, known bool) (limit string, err *trigger.Error) {
	if s == nil {
		return "", nil
	}
	bound := s.ledger.of(tenant)
	if bound == (Limit{}) {
		return "", nil
	}
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	s.release()
	share := float64(l.owned) / float64(l.partitions)
	if bound.MaxPending > 0 && !known && l.pending[tenant] >= max(1, int64(float64(bound.MaxPending)*share)) {
		return MaxPending, refusal(tenant, MaxPending, fmt.Sprint(bound.MaxPending))
	}
	if bound.Rate > 0 {
		w, most := windowOf(tenant, bound.Rate*share, appended)
		if l.admitted[w] >= most {
			return Rate, refusal(tenant, Rate, fmt.Sprint(bound.Rate)+" registers a second")
		}
		l.spend(w, 1)
		s.turn = append(s.turn, w)
	}
	if bound.MaxPending > 0 && !known {
		l.add(tenant, 1)
		s.admitted = tenant
	}
	return "", nil
}

// Committed says that the turn under way has committed: what it admitted stays counted.
func (s *Share) Committed() {
	if s == nil {
		return
	}
	s.turn = s.turn[:0]
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.release()
}

func refusal(tenant, limit, value string) *trigger.Error {
	return &trigger.Error{
		Code: trigger.CodeQuotaExceeded,
		Msg:  fmt.Sprintf("tenant %s is at its limit tenants.%s.%s, %s", tenant, tenant, limit, value),
	}
}

// windowOf returns the window of an append time, and how many registers it has room for. A
// rate that is no whole number for each window has it on average.
func windowOf(tenant string, rate float64, at trigger.Instant) (window, int64) {
	length := shortest
	if rate*shortest.Seconds() < 1 {
		length = time.Duration(math.Ceil(1/rate)) * time.Second
	}
	w := window{tenant: tenant, length: length, n: at.Time().UnixMilli() / length.Milliseconds()}
	room := rate * length.Seconds()
	return w, int64(math.Floor(float64(w.n+1)*room) - math.Floor(float64(w.n)*room))
}

func (l *Ledger) add(tenant string, n int64) {
	if l.pending[tenant] += n; l.pending[tenant] == 0 {
		delete(l.pending, tenant)
	}
}

func (l *Ledger) spend(w window, n int64) {
	if _, known := l.admitted[w]; !known && len(l.admitted) >= maxWindows {
		clear(l.admitted)
	}
	if l.admitted[w] += n; l.admitted[w] <= 0 {
		delete(l.admitted, w)
	}
}
