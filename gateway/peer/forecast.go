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

	// Of one partition: what it cost, and whether it ended early because that was too much.
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
	if timetable != nil {
		own := timetable().Fork() // its compiled rules serve the whole scan
		timetable = func() *trigger.Timetable { return own }
	}
	c := &upcomingCount{
		q: q, timetable: timetable, last: q.From + trigger.Instant(q.Bucket*int64(q.N)) - 1,
		turns: scan{ctx: ctx, tenant: q.Tenant, budget: q.Cost},
	}
	defer c.turns.end()
	c.begin()
	all, err := c.byTimer(o, partition)
	if !all && err == nil && c.turns.err == nil {
		c.turns.end() // of the scan before: the next may wait for its read barrier, and others compute meanwhile
		c.begin()
		err = c.byKey(o, partition)
	}
	c.turns.end()
	c.f.Visited, c.f.Own, c.f.Spent, c.f.Over = c.turns.visited, c.own, c.turns.spent, c.turns.over
	return c.f, errors.Join(err, c.turns.err)
}

// upcomingCount is a count of one partition under way.
type upcomingCount struct {
	q         *ForecastQuery
	timetable func() *trigger.Timetable
	last      trigger.Instant // of the window
	turns     scan

	f   Forecast
	own int64 // of the tenant, as the budget has them
}

// begin begins to count, perhaps anew.
func (c *upcomingCount) begin() {
	c.f = Forecast{Channels: map[string][]int{}}
	c.q.Cost.found(-c.own)
	c.own = 0
}

// mostOthers is how many timers of other tenants a count passes over. Keys of a tenant stand together, so beyond that
// its triggers are read by key. Those of the default tenant stand among all others.
const mostOthers = 4096

// othersAtOnce is how many of them are passed over between two questions whether the scan may go on. They are not
// decoded, and not charged as visits: a balance would tell when another tenant's triggers fire.
const othersAtOnce = 64

// byTimer counts what has a timer in the window, or before it: nothing else can fire in it. So it decodes neither what
// fires later nor what has finished. all is false if it met too many timers of other tenants.
func (c *upcomingCount) byTimer(o Owner, partition int32) (all bool, err error) {
	tenant, others := Query{Tenant: c.q.Tenant}, 0
	all = true
	var failed error
	err = o.ScanTimers(c.turns.ctx, partition, TimerCursor{}, func(at TimerCursor, state func() (*trigger.State, error),
	) bool {
		if at.Due > c.last {
			return false
		}
		if !tenant.inTenant(at.Key) {
			others++
			all = c.q.Tenant == trigger.DefaultTenant || others <= mostOthers
			return all && (others%othersAtOnce != 1 || c.turns.visit(0))
		}
		if !c.turns.visit(1) {
			return false
		}
		var s *trigger.State
		if s, failed = state(); failed != nil {
			return false
		}
		return at.Due > firstTimer(s) || c.count(s)
	})
	return all, errors.Join(failed, err)
}

// firstTimer is the instant of the first timer of a trigger, as the store has it: what is before 1970 is at 1970.
func firstTimer(s *trigger.State) trigger.Instant {
	var space [4]trigger.Timer
	var first trigger.Instant
	for i, t := range s.Timers(space[:]) {
		if i == 0 || t.Due < first {
			first = t.Due
		}
	}
	return max(0, first)
}

// byKey counts all triggers of the tenant.
func (c *upcomingCount) byKey(o Owner, partition int32) error {
	tenant := Query{Tenant: c.q.Tenant}
	return o.Scan(c.turns.ctx, partition, tenant.firstKey(""), func(s *trigger.State) bool {
		if !c.turns.visit(1) {
			return false
		}
		if !tenant.inTenant(s.Key) {
			return tenant.mayFollow(s.Key)
		}
		return c.count(s)
	})
}

// count counts what a trigger of the tenant will fire. It is false if the count must end.
func (c *upcomingCount) count(s *trigger.State) bool {
	c.found(1)
	if s.Status == trigger.Paused {
		return true
	}
	n := 0
	walk(c.timetable, s, c.last, func(at trigger.Instant) bool {
		if at > c.last {
			return true // snoozed for longer than that
		}
		c.f.add(s.Spec.Channel, at, c.q)
		if n++; n%visitsAtOnce == 0 && !c.turns.visit(visitsAtOnce) {
			return false
		}
		return n < maxForecastOf
	})
	c.found(int64(n))
	return c.turns.err == nil && c.turns.visit(n%visitsAtOnce)
}

func (c *upcomingCount) found(n int64) {
	c.own += n
	c.q.Cost.found(n)
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
