package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// shelves is an owner that only lists: a partition's triggers, in order.
type shelves struct {
	Owner
	of      [][]UserCursor
	asks    atomic.Int64
	visited atomic.Int64
}

func (s *shelves) Stale() Owner { return s }

func (s *shelves) Reconcile(context.Context, int32, bool) (Reconciled, error) {
	return Reconciled{}, nil
}

func (s *shelves) ScanUser(_ context.Context, p int32, tenant, user string, after UserCursor,
	f func(UserCursor, *trigger.State) bool,
) error {
	s.asks.Add(1)
	for _, at := range s.of[p] {
		if at.Compare(after) <= 0 {
			continue
		}
		s.visited.Add(1)
		st := &trigger.State{Key: at.Key, Status: trigger.Pending}
		st.Spec.UserID = user
		if len(at.Key)%2 == 0 {
			st.Status = trigger.Erased // shown to nobody
		}
		if !f(at, st) {
			return nil
		}
	}
	return nil
}

// shelve puts n triggers on partitions; skew of ten go to the first.
func shelve(rng *rand.Rand, partitions, n, skew int) *shelves {
	s := &shelves{of: make([][]UserCursor, partitions)}
	for i := range n {
		p := rng.IntN(partitions)
		if rng.IntN(10) < skew {
			p = 0
		}
		key := fmt.Sprintf("k%d", i*1_000_003)
		s.of[p] = append(s.of[p], UserCursor{Due: trigger.Instant(1 + rng.IntN(50)), Key: trigger.Key(key)})
	}
	for _, list := range s.of {
		slices.SortFunc(list, UserCursor.Compare)
	}
	return s
}

// However triggers lie on partitions, the pages of a list are all that is
// there, once, in order, and full but for the last.
func TestFindPages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		partitions, n, skew := 1+rng.IntN(20), rng.IntN(300), rng.IntN(11)
		s := shelve(rng, partitions, n, skew)
		r := &Router{partitions: int32(partitions), own: s}
		var want, got []UserCursor
		for _, list := range s.of {
			want = append(want, list...)
		}
		want = slices.DeleteFunc(want, func(at UserCursor) bool { return len(at.Key)%2 == 0 })
		slices.SortFunc(want, UserCursor.Compare)
		q := Query{Tenant: trigger.DefaultTenant, User: "u", Limit: 1 + rng.IntN(120), Budget: 1 << 20}
		for more := true; more; {
			page, err := r.Find(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Items {
				got = append(got, f.At)
			}
			if more, q.After = page.More, page.Through; more && len(page.Items) != q.Limit {
				t.Fatalf("%d partitions, skew %d: a page of %d of %d, and more behind it", partitions, skew,
					len(page.Items), q.Limit)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d partitions, skew %d, pages of %d: got %v\nwant %v", partitions, skew, q.Limit, got, want)
		}
	}
}

// A partition is asked for its share of a page, not for the page.
func TestFindAsksForShares(t *testing.T) {
	s := &shelves{of: make([][]UserCursor, 16)}
	for i := range 16_000 {
		key := trigger.Key(fmt.Sprintf("k%06d", i)) // of seven bytes: shown
		p := topics.Partition([]byte(key), 16)
		s.of[p] = append(s.of[p], UserCursor{Due: 1, Key: key})
	}
	r := &Router{partitions: 16, own: s}
	page, err := r.Find(context.Background(), Query{
		Tenant: trigger.DefaultTenant, User: "u", Limit: 100,
		Budget: 1 << 20,
	})
	if err != nil || len(page.Items) != 100 || !page.More {
		t.Fatalf("%d items, more %v, %v", len(page.Items), page.More, err)
	}
	if asks, visited := s.asks.Load(), s.visited.Load(); asks != 16 || visited > 300 {
		t.Errorf("%d asks, %d triggers visited for a page of 100", asks, visited)
	}
}

// waiting is an owner whose scans by key wait, as for a read barrier.
type waiting struct {
	Owner
	held func() int
}

func (o waiting) ScanTimers(_ context.Context, _ int32, _ TimerCursor,
	f func(TimerCursor, func() (*trigger.State, error)) bool,
) error {
	key := trigger.Key("acme/k")
	f(TimerCursor{Due: 1, Key: key}, func() (*trigger.State, error) { return &trigger.State{Key: key}, nil })
	return nil
}

func (o waiting) Scan(context.Context, int32, trigger.Key, func(*trigger.State) bool) error {
	if n := o.held(); n != 0 {
		return fmt.Errorf("%d slots are held", n)
	}
	return nil
}

// A list that waits for a read barrier holds no slot of those who compute.
func TestFindWaitsWithoutASlot(t *testing.T) {
	asked := false
	o := waiting{held: func() int { asked = true; return computing.Held("acme") }}
	q := &Query{Tenant: "acme", ByNextFire: true, Limit: 10, Budget: 100}
	if _, err := find(t.Context(), o, 0, q); err != nil || !asked {
		t.Errorf("%v; asked: %v", err, asked)
	}
}

// passing is an owner with many triggers of each of many tenants. Each takes a while to pass.
type passing struct {
	Owner
	keys   []trigger.Key
	passed int
}

const toPass = 10 * time.Microsecond

func (o *passing) Scan(_ context.Context, _ int32, after trigger.Key, f func(*trigger.State) bool) error {
	i, _ := slices.BinarySearch(o.keys, after)
	for _, key := range o.keys[i:] {
		if key == after {
			continue
		}
		time.Sleep(toPass)
		if o.passed++; !f(&trigger.State{Key: key}) {
			break
		}
	}
	return nil
}

// A list that begins anew behind each tenant rests as long as it computes, as one that goes straight on.
func TestFindRestsBetweenTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &passing{}
		for tenant := range 100 {
			for i := range longRow + 10 {
				o.keys = append(o.keys, trigger.Key(fmt.Sprintf("t%03d/%03d", tenant, i)))
			}
		}
		begun := time.Now()
		q := &Query{Tenant: trigger.DefaultTenant, Limit: 10, Budget: 1e6}
		if _, err := find(t.Context(), o, 0, q); err != nil {
			t.Fatal(err)
		}
		computed := time.Duration(o.passed) * toPass
		if rested := time.Since(begun) - computed; o.passed < 100*longRow || rested < computed-slice {
			t.Errorf("%d were passed: it computed for %v, and rested for %v", o.passed, computed, rested)
		}
	})
}

// A list whose request has used up its budget goes on behind its cursor, and never begins anew.
func TestFindOverItsBudgetGoesOn(t *testing.T) {
	o := &passing{keys: []trigger.Key{"l", "m", "n", "o"}}
	q := &Query{
		Tenant: trigger.DefaultTenant, Limit: 10, Budget: 1, Time: 1, Cost: &Budget{Visits: 1, Time: 1},
		After: UserCursor{Key: "m"},
	}
	q.Cost.used(100, time.Second)
	if page, err := find(t.Context(), o, 0, q); err != nil || !page.More || page.Through.Key != "n" {
		t.Errorf("more %t, through %q, %v", page.More, page.Through.Key, err)
	}
}

// noTimers has triggers, and none that fires.
type noTimers struct{ *passing }

func (noTimers) ScanTimers(context.Context, int32, TimerCursor,
	func(TimerCursor, func() (*trigger.State, error)) bool,
) error {
	return nil
}

// What fires between two instants is found by its timers alone.
func TestFindByNextFireWithinTimes(t *testing.T) {
	const pending, paused = StateSet(1 << trigger.Pending), StateSet(1 << trigger.Paused)
	for _, c := range []struct {
		states   StateSet
		from, to trigger.Instant
		scans    bool
	}{
		{pending, 1, 2, false},
		{mayFire, 1, 0, false},
		{pending, 0, 2, false},
		{pending, 0, 0, true},
		{paused, 1, 2, true},
	} {
		o := noTimers{&passing{keys: []trigger.Key{"k"}}}
		q := &Query{
			Tenant: trigger.DefaultTenant, ByNextFire: true, Limit: 10, Budget: 10,
			States: c.states, From: c.from, To: c.to,
		}
		if _, err := find(t.Context(), o, 0, q); err != nil || (o.passed > 0) != c.scans {
			t.Errorf("%+v: %d triggers visited, %v", c, o.passed, err)
		}
	}
}

// However little a request may cost, and however triggers lie on partitions, the pages of a list are all that is there,
// once, in order.
func TestFindPagesWithinABudget(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		partitions := 1 + rng.IntN(40)
		s := shelve(rng, partitions, rng.IntN(100), rng.IntN(11))
		r := &Router{partitions: int32(partitions), own: s}
		var want, got []UserCursor
		for _, list := range s.of {
			want = append(want, list...)
		}
		want = slices.DeleteFunc(want, func(at UserCursor) bool { return len(at.Key)%2 == 0 })
		slices.SortFunc(want, UserCursor.Compare)
		visits := int64(1 + rng.IntN(100))
		q := Query{Tenant: trigger.DefaultTenant, User: "u", Limit: 1 + rng.IntN(20), Budget: 1 + rng.IntN(30)}
		for more := true; more; {
			q.Cost = &Budget{Visits: visits}
			page, err := r.Find(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if page.More && page.Through.Compare(q.After) <= 0 {
				t.Fatalf("%d partitions, %d visits: a page behind %v goes to %v", partitions, visits, q.After,
					page.Through)
			}
			for _, f := range page.Items {
				got = append(got, f.At)
			}
			more, q.After = page.More, page.Through
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d partitions, %d visits: got %v\nwant %v", partitions, visits, got, want)
		}
	}
}

// Each partition has its share of what a request may visit and compute: if the first ones used up all, a page would end
// where the last one did, which is at its first trigger.
func TestFindSharesItsBudget(t *testing.T) {
	const partitions, keys = 40, 8000
	for name, cost := range map[string]func() *Budget{
		"visits": func() *Budget { return &Budget{Visits: keys / 4} },
		"time":   func() *Budget { return &Budget{Time: keys / 4 * toPass} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := make([]passing, partitions)
				for i := range keys {
					key := trigger.Key(fmt.Sprintf("k%06d", i))
					of := &o[topics.Partition([]byte(key), partitions)]
					of.keys = append(of.keys, key)
				}
				r := &Router{partitions: partitions, own: manyPassing{of: o}}
				q := Query{Tenant: trigger.DefaultTenant, Channel: "none", Limit: 10, Budget: 1e6}
				for pages, more := 0, true; more; pages++ {
					if pages == 20 {
						t.Fatalf("after 20 pages of a quarter of all, the list is at %q", q.After.Key)
					}
					q.Cost = cost()
					page, err := r.Find(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					more, q.After = page.More, page.Through
				}
			})
		})
	}
}

// manyPassing has a passing for each partition.
type manyPassing struct {
	Owner
	of []passing
}

func (o manyPassing) Scan(ctx context.Context, p int32, after trigger.Key, f func(*trigger.State) bool) error {
	return o.of[p].Scan(ctx, p, after, f)
}

// What a list may compute bounds the partitions of other instances, too, and what they compute is charged.
func TestFindBoundsOtherInstances(t *testing.T) {
	o := &passing{}
	for i := range 1000 {
		o.keys = append(o.keys, trigger.Key(fmt.Sprintf("k%03d", i)))
	}
	s := httptest.NewUnstartedServer(nil)
	addr := s.Listener.Addr().String()
	s.Config.Handler = internalAt(t, o, addr)
	s.Start()
	defer s.Close()
	for name, r := range map[string]*Router{
		"here": NewRouter(Config{Partitions: 1, Owner: o}),
		"there": NewRouter(Config{
			Partitions: 1, Trust: trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true}),
			LastOwner: func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: addr}, nil },
		}),
	} {
		for _, c := range []struct {
			cost *Budget
			want int64
		}{
			{&Budget{Time: 1}, 2},
			{&Budget{Visits: 7}, 7},
			{&Budget{Visits: 7, Time: time.Hour}, 7},
		} {
			q := Query{Tenant: trigger.DefaultTenant, Limit: 10, Budget: 20_000, Channel: "none", Cost: c.cost}
			page, err := r.Find(t.Context(), q)
			if got := q.Cost.Visited(); err != nil || !page.More || got != c.want || q.Cost.spent.Load() == 0 {
				t.Errorf("%s, %d visits, %s: %d visited in %s; more %t, %v", name, c.cost.Visits, c.cost.Time, got,
					time.Duration(q.Cost.spent.Load()), page.More, err)
			}
		}
	}
}
