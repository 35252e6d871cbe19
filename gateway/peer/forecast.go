package peer

import (
	"context"
	"net/url"
	"strconv"

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
}

// Forecast is a count for each bucket and channel.
type Forecast struct {
	Channels map[string][]int `json:"channels"`
}

// MaxBuckets bounds the buckets of a forecast: a day of minutes.
const MaxBuckets = 1440

// maxForecastOf bounds the occurrences counted of one trigger: a week of one
// that fires every minute.
const maxForecastOf = 10_080

// forecast counts one partition from its owner. Recurrences are followed to
// the end of the window; what is paused does not count.
func forecast(
	ctx context.Context, o Owner, partition int32, q *ForecastQuery, timetable func() *trigger.Timetable,
) (Forecast, error) {
	f := Forecast{Channels: map[string][]int{}}
	if timetable != nil {
		own := timetable().Fork() // its compiled rules serve the whole scan
		timetable = func() *trigger.Timetable { return own }
	}
	last := q.From + trigger.Instant(q.Bucket*int64(q.N)) - 1
	tenant := Query{Tenant: q.Tenant}
	err := o.Scan(ctx, partition, tenant.firstKey(), func(s *trigger.State) bool {
		if !tenant.inTenant(s.Key) {
			return tenant.mayFollow(s.Key)
		}
		if s.Status != trigger.Paused {
			for _, p := range Planned(timetable, s, maxForecastOf, last) {
				f.add(s.Spec.Channel, p.At, q)
			}
		}
		return true
	})
	return f, err
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
	return ForecastQuery{Tenant: v.Get("tenant"), From: trigger.Instant(from), Bucket: bucket, N: n}, nil
}
