package peer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// encodedStates is an owner of one partition that keeps states encoded, as the engine does, and counts how many it
// decodes.
type encodedStates struct {
	Owner
	keys    []trigger.Key // in order
	states  map[trigger.Key][]byte
	timers  []TimerCursor // in order
	decoded atomic.Int64
}

func encodeStates(tb testing.TB, all []*trigger.State) *encodedStates {
	o := &encodedStates{states: map[trigger.Key][]byte{}}
	for _, s := range all {
		b, err := topics.AppendState(nil, s)
		if err != nil {
			tb.Fatal(err)
		}
		o.keys, o.states[s.Key] = append(o.keys, s.Key), b
		for _, t := range s.Timers(nil) {
			o.timers = append(o.timers, TimerCursor{max(0, t.Due), t.Priority, s.Key})
		}
	}
	slices.Sort(o.keys)
	slices.SortFunc(o.timers, func(a, b TimerCursor) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Key, b.Key))
	})
	o.timers = slices.Compact(o.timers)
	return o
}

func (o *encodedStates) state(key trigger.Key) (*trigger.State, error) {
	o.decoded.Add(1)
	return topics.DecodeState(key, o.states[key])
}

func (o *encodedStates) Scan(_ context.Context, _ int32, after trigger.Key, f func(*trigger.State) bool) error {
	for _, key := range o.keys {
		if key <= after {
			continue
		}
		if s, err := o.state(key); err != nil || !f(s) {
			return err
		}
	}
	return nil
}

func (o *encodedStates) ScanTimers(_ context.Context, _ int32, _ TimerCursor,
	f func(at TimerCursor, state func() (*trigger.State, error)) bool,
) error {
	for _, at := range o.timers {
		if !f(at, func() (*trigger.State, error) { return o.state(at.Key) }) {
			return nil
		}
	}
	return nil
}

const forecastFrom = trigger.Instant(1_800_000_000_000)

// someTriggers are triggers of all kinds: one-shots and series, some due, some far ahead, paused, finished, snoozed.
func someTriggers(rng *rand.Rand, tenant string, n int) (all []*trigger.State) {
	for i := range n {
		s := &trigger.State{Key: trigger.NewKey(tenant, fmt.Sprintf("t%06d", i)), Status: trigger.Pending, Revision: 1}
		s.Spec = trigger.Spec{Channel: []string{"push", "sms"}[rng.IntN(2)], Payload: []byte(`{"title":"Take pills"}`)}
		s.Series.At = forecastFrom + trigger.Instant(rng.Int64N(30*86_400_000)) - 60_000
		s.Series.Occurrence = s.Series.At.String()
		switch rng.IntN(10) {
		case 0:
			s.Status = trigger.Paused
		case 1:
			s.Status, s.Series = trigger.Fired, trigger.Series{}
		case 2:
			s.Series.Start = s.Series.At.String()
			s.Spec.When = trigger.When{Kind: trigger.WhenRecurrence, Recurrence: "every:6h", Start: s.Series.Start}
		case 3:
			at := s.Series.At - trigger.Instant(rng.Int64N(86_400_000))
			s.Live = []trigger.Live{
				{Kind: trigger.LiveSnoozed, Occurrence: "snz", Nominal: at, Due: at},
				{Kind: trigger.LiveInFlight, Occurrence: "o", Nominal: at - 1, Due: at + 5000, Attempt: 1},
			}
		}
		all = append(all, s)
	}
	return all
}

func timetable() *trigger.Timetable { return &trigger.Timetable{Zones: calendar.Embedded()} }

// A count decodes what may fire in its window alone, and counts the same as one that reads all.
func TestForecastDecodesWhatItCounts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := slices.Concat(someTriggers(rng, "default", 2000), someTriggers(rng, "acme", 1000))
	for _, tenant := range []string{"default", "acme"} {
		for _, window := range []struct {
			bucket int64
			n      int
		}{{30_000, 120}, {60_000, 1440}, {86_400_000, 40}} {
			q := ForecastQuery{Tenant: tenant, From: forecastFrom, Bucket: window.bucket, N: window.n, Cost: &Budget{}}
			o := encodeStates(t, all)
			got, err := countUpcoming(t.Context(), o, 0, &q, timetable)
			if err != nil {
				t.Fatal(err)
			}
			last := q.From + trigger.Instant(q.Bucket*int64(q.N))
			due := int64(0)
			for _, at := range o.timers {
				if at.Due < last && at.Key.Tenant() == tenant {
					due++
				}
			}
			if got := o.decoded.Load(); got > due {
				t.Errorf("%s, %+v: it decodes %d states, and %d timers are in the window", tenant, window, got, due)
			}
			want := byKeyAlone(t, o, &q)
			if !reflect.DeepEqual(got.Channels, want.Channels) {
				t.Errorf("%s, %+v: %v, and of all that there is %v", tenant, window, got, want)
			}
		}
	}
}

// byKeyAlone counts by reading every trigger of a tenant.
func byKeyAlone(tb testing.TB, o Owner, q *ForecastQuery) Forecast {
	c := &upcomingCount{
		q: q, timetable: timetable, last: q.From + trigger.Instant(q.Bucket*int64(q.N)) - 1,
		turns: scan{ctx: tb.Context(), tenant: q.Tenant, budget: &Budget{}},
	}
	defer c.turns.end()
	c.begin()
	if err := c.byKey(o, 0); err != nil {
		tb.Fatal(err)
	}
	return c.f
}

// A tenant with few triggers does not pay for the timers of all others.
func TestForecastOfASmallTenant(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	few := someTriggers(rng, "small", 20)
	o := encodeStates(t, slices.Concat(someTriggers(rng, "large", 4*mostOthers), few))
	q := ForecastQuery{Tenant: "small", From: forecastFrom, Bucket: 86_400_000, N: 40, Cost: &Budget{}}
	got, err := countUpcoming(t.Context(), o, 0, &q, timetable)
	if want := byKeyAlone(t, o, &q); err != nil || !reflect.DeepEqual(got.Channels, want.Channels) {
		t.Errorf("%v (%v), want %v", got, err, want)
	}
	if visited := q.Cost.Visited(); visited > 2*20*200 {
		t.Errorf("it visits %d", visited)
	}
}

// A tenant with one trigger pays for that one, in each partition, however many timers of others come before it.
func TestForecastChargesNoTimersOfOthers(t *testing.T) {
	const partitions = 16
	one := &trigger.State{Key: trigger.NewKey("small", "t"), Status: trigger.Pending, Revision: 1}
	one.Spec.Channel, one.Series.At = "push", forecastFrom+30*86_400_000
	for _, others := range []int{0, 100, 2 * mostOthers} {
		o := encodeStates(t, append(someTriggers(rand.New(rand.NewPCG(1, 2)), "large", others), one))
		r := NewRouter(Config{Partitions: partitions, Owner: o})
		q := ForecastQuery{
			Tenant: "small", From: forecastFrom, Bucket: 86_400_000, N: 40, Cost: &Budget{Visits: 100 * partitions},
		}
		f, err := r.Forecast(t.Context(), q, timetable)
		if err != nil || f.Channels["push"][30] != partitions {
			t.Errorf("beside %d: %v (%v)", others, f, err)
		}
		// The trigger, what it fires, and a key behind the tenant's.
		if got := q.Cost.Visited(); got > 3*partitions {
			t.Errorf("beside %d triggers of another tenant %d visits are charged, want %d at most", others, got,
				3*partitions)
		}
	}
}

// What a count costs where 100,000 one-shots and series lie within 30 days: of the window alone, and of all by key, as
// before.
func BenchmarkForecast(b *testing.B) {
	o := encodeStates(b, someTriggers(rand.New(rand.NewPCG(1, 2)), "default", 100_000))
	for _, window := range []struct {
		name   string
		bucket int64
		n      int
	}{{"an-hour", 30_000, 120}, {"a-day", 60_000, 1440}, {"40-days", 86_400_000, 40}} {
		query := func() *ForecastQuery {
			return &ForecastQuery{
				Tenant: "default", From: forecastFrom, Bucket: window.bucket, N: window.n, Cost: &Budget{},
			}
		}
		b.Run(window.name+"/timers", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := countUpcoming(b.Context(), o, 0, query(), timetable); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(window.name+"/keys", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				byKeyAlone(b, o, query())
			}
		})
	}
}
