package peer

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// ForecastQuery asks how many occurrences fall into each of N buckets from
// From on.
type ForecastQuery struct {
	Tenant string
	From   trigger.Instant
	Bucket int64 // ms
	N      int

	Cost *Budget // nil: no bound
}

// Forecast is a count for each bucket and channel.
type Forecast struct {
	Channels map[string][]int `json:"channels"`

	// Of another instance: what it cost there, and whether that was too much.
	Visited int64         `json:"visited,omitempty"`
	Own     int64         `json:"own,omitempty"` // of Visited, the tenant's; an instance of before says nothing
	Spent   time.Duration `json:"spent,omitempty"`
	Over    bool          `json:"over,omitempty"`
}

// MaxBuckets bounds the buckets of a forecast: a day of minutes.
const MaxBuckets = 1440

// maxForecastOf bounds the occurrences counted of one trigger: a week of one
// that fires every minute.
const maxForecastOf = 10_080

// countUpcoming counts one partition from its owner. Recurrences are followed to
// the end of the window; what is paused does not count. Over says that the budget
// was met before the end.
func countUpcoming(
	ctx context.Context, o Owner, partition int32, q *ForecastQuery, timetable func() *trigger.Timetable,
) (Forecast, error) {
	f := Forecast{Channels: map[string][]int{}}
	if timetable != nil {
		own := timetable().Fork() // its compiled rules serve the whole scan
		timetable = func() *trigger.Timetable { return own }
	}
	last := q.From + trigger.Instant(q.Bucket*int64(q.N)) - 1
	tenant := Query{Tenant: q.Tenant}
	turns := scan{ctx: ctx, tenant: q.Tenant, budget: q.Cost}
	defer turns.end()
	err := o.Scan(ctx, partition, tenant.firstKey(""), func(s *trigger.State) bool {
		if !turns.visit(1) {
			return false
		}
		if !tenant.inTenant(s.Key) {
			return tenant.mayFollow(s.Key)
		}
		q.Cost.found(1)
		if s.Status == trigger.Paused {
			return true
		}
		n := 0
		walk(timetable, s, last, func(at trigger.Instant) bool {
			if at > last {
				return true // snoozed for longer than that
			}
			f.add(s.Spec.Channel, at, q)
			if n++; n%visitsAtOnce == 0 && !turns.visit(visitsAtOnce) {
				return false
			}
			return n < maxForecastOf
		})
		q.Cost.found(int64(n))
		return turns.err == nil && turns.visit(n%visitsAtOnce)
	})
	f.Over = q.Cost.mustEnd()
	return f, errors.Join(err, turns.err)
}

// visitsAtOnce is how many occurrences are counted between two questions whether
// the scan may go on: about a millisecond of them.
const visitsAtOnce = 256

// walk calls f for what s will fire; without a timetable only the next is known.
func walk(timetable func() *trigger.Timetable, s *trigger.State, until trigger.Instant,
	f func(at trigger.Instant) bool,
) {
	if timetable != nil {
		timetable().Walk(s, until, func(p trigger.Planned, _ bool) bool { return f(p.At) })
		return
	}
	if at := s.Next(); at != 0 {
		f(at)
	}
}

// Planned is Timetable.Upcoming; without a timetable only the next is known.
func Planned(timetable func() *trigger.Timetable, st *trigger.State, n int, until trigger.Instant) []trigger.Planned {
	if timetable != nil {
		return timetable().Upcoming(st, n, until)
	}
	at := st.Next()
	if at == 0 || until != 0 && at > until {
		return nil
	}
	return []trigger.Planned{{At: at, Nominal: at, Occurrence: st.Series.Occurrence, Local: st.Series.Local}}
}

// add counts an occurrence; what is overdue counts as now.
func (f *Forecast) add(channel string, at trigger.Instant, q *ForecastQuery) {
	i := int64(max(at, q.From)-q.From) / q.Bucket
	if i >= int64(q.N) {
		return
	}
	if f.Channels[channel] == nil {
		f.Channels[channel] = make([]int, q.N)
	}
	f.Channels[channel][i]++
}

func addForecasts(all []Forecast) Forecast {
	sum := Forecast{Channels: map[string][]int{}}
	for _, f := range all {
		for channel, counts := range f.Channels {
			if sum.Channels[channel] == nil {
				sum.Channels[channel] = make([]int, len(counts))
			}
			for i := range min(len(counts), len(sum.Channels[channel])) {
				sum.Channels[channel][i] += counts[i]
			}
		}
	}
	return sum
}

func (q *ForecastQuery) addTo(v url.Values) {
	v.Set("tenant", q.Tenant)
	v.Set("from", strconv.FormatInt(int64(q.From), 10))
	v.Set("bucket", strconv.FormatInt(q.Bucket, 10))
	v.Set("n", strconv.Itoa(q.N))
	visits, within := q.Cost.left()
	v.Set("visits", strconv.FormatInt(visits, 10))
	v.Set("time", strconv.FormatInt(int64(within), 10))
}

func forecastQueryFrom(v url.Values) (ForecastQuery, error) {
	from, err := strconv.ParseInt(v.Get("from"), 10, 64)
	if err != nil {
		return ForecastQuery{}, err
	}
	bucket, err := strconv.ParseInt(v.Get("bucket"), 10, 64)
	if err != nil || bucket < 1 {
		return ForecastQuery{}, problem.BadParameter("bucket", "bucket must be at least 1 ms")
	}
	n, err := strconv.Atoi(v.Get("n"))
	if err != nil || n < 1 || n > MaxBuckets {
		return ForecastQuery{}, problem.BadParameter("n", "too many buckets")
	}
	cost := &Budget{} // an instance of before bounds nothing
	if text := v.Get("visits"); text != "" {
		visits, err := strconv.ParseInt(text, 10, 64)
		within, err2 := strconv.ParseInt(v.Get("time"), 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return ForecastQuery{}, err
		}
		cost.Visits, cost.Time = visits, time.Duration(within)
	}
	return ForecastQuery{Tenant: v.Get("tenant"), From: trigger.Instant(from), Bucket: bucket, N: n, Cost: cost}, nil
}
