package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// manyOf has so many triggers in each partition. The first scans begin together.
type manyOf struct {
	Owner
	keys    []int
	begun   atomic.Int32
	atOnce  int32
	all     chan struct{}
	visited atomic.Int64
}

func newManyOf(atOnce int, keys ...int) *manyOf {
	return &manyOf{keys: keys, atOnce: int32(atOnce), all: make(chan struct{})}
}

func (o *manyOf) ScanTimers(
	ctx context.Context, p int32, _ TimerCursor, f func(TimerCursor, func() (*trigger.State, error)) bool,
) error {
	if o.begun.Add(1) == o.atOnce {
		close(o.all)
	}
	select {
	case <-o.all:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
		return errors.New("nobody else scans")
	}
	for i := range o.keys[p] {
		o.visited.Add(1)
		s := &trigger.State{Key: trigger.Key(fmt.Sprintf("k%d", i)), Status: trigger.Paused}
		if !f(TimerCursor{Key: s.Key}, func() (*trigger.State, error) { return s, nil }) {
			break
		}
	}
	return nil
}

// otherInstance is a router whose partitions are all another instance's.
func otherInstance(t *testing.T, o Owner, partitions int) *Router {
	s := httptest.NewUnstartedServer(nil)
	addr := s.Listener.Addr().String()
	s.Config.Handler = internalAt(t, o, addr)
	s.Start()
	t.Cleanup(s.Close)
	return NewRouter(Config{
		Partitions: int32(partitions), Trust: trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true}),
		LastOwner: func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: addr}, nil },
	})
}

// Partitions that are asked at once divide the budget: together they do not visit more than it.
func TestForecastDividesItsBudget(t *testing.T) {
	const visits = 1000
	o := newManyOf(forecastAtOnce, 5000, 5000, 5000, 5000, 5000, 5000)
	r := otherInstance(t, o, len(o.keys))
	q := ForecastQuery{Tenant: trigger.DefaultTenant, Bucket: 1, N: 1, Cost: &Budget{Visits: visits}}
	_, err := r.Forecast(t.Context(), q, nil)
	if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Status != http.StatusRequestEntityTooLarge {
		t.Fatalf("%d visits: %v", q.Cost.Visited(), err)
	}
	// Each scan ends with the first trigger beyond its share.
	if got, most := o.visited.Load(), int64(visits+len(o.keys)); got > most {
		t.Errorf("with a budget of %d they visited %d", visits, got)
	}
}

// A partition that needs more than its share has what others leave.
func TestForecastOfUnevenPartitions(t *testing.T) {
	o := newManyOf(forecastAtOnce, 400, 10, 10, 10, 10, 10)
	r := otherInstance(t, o, len(o.keys))
	q := ForecastQuery{Tenant: trigger.DefaultTenant, Bucket: 1, N: 1, Cost: &Budget{Visits: 1000}}
	if _, err := r.Forecast(t.Context(), q, nil); err != nil {
		t.Errorf("%d visits: %v", q.Cost.Visited(), err)
	}
	if got := q.Cost.Visited(); got != o.visited.Load() {
		t.Errorf("%d visits are charged of %d", got, o.visited.Load())
	}
}

// A partition that is counted again counts once against the budget, and as the tenant's own once. The quota is charged
// for both times.
func TestForecastCountsWhatItRetriesOnce(t *testing.T) {
	sizes := []int{400, 60, 60, 60, 60, 60, 60, 60, 60, 60}
	for name, router := range map[string]func(o *manyOf) *Router{
		"of another instance": func(o *manyOf) *Router { return otherInstance(t, o, len(sizes)) },
		"of this one, beside another": func(o *manyOf) *Router {
			r := otherInstance(t, o, len(sizes))
			r.own = firstOf{o}
			return r
		},
	} {
		o := newManyOf(forecastAtOnce, sizes...)
		q := ForecastQuery{Tenant: trigger.DefaultTenant, Bucket: 1, N: 1, Cost: &Budget{Visits: 1000}}
		if _, err := router(o).Forecast(t.Context(), q, nil); err != nil {
			t.Errorf("%s: %d visits: %v", name, q.Cost.Visited(), err)
		}
		if own := q.Cost.own.Load(); own != 400+9*60 {
			t.Errorf("%s: %d are the tenant's own, want %d", name, own, 400+9*60)
		}
		if got := q.Cost.Visited(); got != o.visited.Load() {
			t.Errorf("%s: %d visits are charged of %d", name, got, o.visited.Load())
		}
	}
}

// firstOf owns the first partition alone.
type firstOf struct{ *manyOf }

func (o firstOf) ScanTimers(
	ctx context.Context, p int32, from TimerCursor, f func(TimerCursor, func() (*trigger.State, error)) bool,
) error {
	if p > 0 {
		return ErrNoOwner
	}
	return o.manyOf.ScanTimers(ctx, p, from, f)
}

// A partition that was counted to its end is not short, also if others have borrowed the rest of the budget by then.
func TestForecastCountedToItsEnd(t *testing.T) {
	cost := &Budget{Visits: 100}
	o := thenLend{newManyOf(1, 10), cost}
	f, err := countUpcoming(t.Context(), o, 0,
		&ForecastQuery{Tenant: trigger.DefaultTenant, Bucket: 1, N: 1, Cost: cost}, nil)
	if err != nil || !cost.mustEnd() || f.Over {
		t.Errorf("%+v (%v), %t", f, err, cost.mustEnd())
	}
}

// thenLend lends the rest of a budget once it has scanned, and uses some.
type thenLend struct {
	*manyOf
	cost *Budget
}

func (o thenLend) ScanTimers(
	ctx context.Context, p int32, from TimerCursor, f func(TimerCursor, func() (*trigger.State, error)) bool,
) error {
	defer func() {
		o.cost.lend(1)
		o.cost.used(1, 0)
	}()
	return o.manyOf.ScanTimers(ctx, p, from, f)
}

// What instances have borrowed is not lent again, and is left again when it is repaid.
func TestLend(t *testing.T) {
	b := &Budget{Visits: 1000, Time: time.Second}
	b.used(200, 0)
	var all []loan
	for range 4 {
		l, _ := b.lend(4)
		all = append(all, l)
	}
	for _, l := range all {
		if l != (loan{200, 250 * time.Millisecond}) {
			t.Errorf("lent %+v", all)
		}
	}
	if _, ok := b.lend(4); ok {
		t.Error("more is lent than is left")
	}
	if b.used(1, 0); !b.mustEnd() || b.over() {
		t.Error("who reads beside them may go on, or all is used up")
	}
	b.used(99, 0)
	b.repay(all[0])
	if l, _ := b.lend(4); l != (loan{100, 250 * time.Millisecond}) {
		t.Errorf("after 100 were used, of the 200 of one it lent %+v", l)
	}
	for range 4 {
		b.repay(all[1])
	}
	if none, ok := (&Budget{}).lend(4); !ok || none != (loan{}) {
		t.Errorf("without a bound it lent %+v", none)
	}
}
