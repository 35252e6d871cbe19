package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/trigger"
)

// Upcoming is a forecast of load.
type Upcoming struct {
	Items []UpcomingBucket `json:"items"`
}

// UpcomingBucket counts the occurrences of one span of time.
type UpcomingBucket struct {
	At       string         `json:"at" format:"date-time" doc:"Where the bucket begins"`
	Count    int            `json:"count"`
	Channels map[string]int `json:"channels,omitempty" doc:"The count by channel"`
}

const (
	defaultBucket  = time.Minute
	maxBucket      = 366 * 24 * time.Hour
	defaultBuckets = 120
)

// getUpcoming counts what will fire, bucket by bucket. The first bucket begins at a whole
// multiple of its length at or before now, and includes what is overdue. It is GET /v1/forecast
// in the shape of before. Where the owners' pictures do not have the buckets that are asked for,
// every state is read.
func (s *triggerViews) getUpcoming(w http.ResponseWriter, r *request) error {
	n, err := r.number("n", defaultBuckets, 1, peer.MaxBuckets)
	if err != nil {
		return err
	}
	bucket, err := bucketParam(r.query.Get("bucket"))
	if err != nil {
		return err
	}
	now := trigger.At(s.now())
	q := peer.ForecastQuery{Tenant: r.who.Tenant, Bucket: bucket.Milliseconds(), N: n, Cost: r.read.cost}
	q.From = now - now%trigger.Instant(q.Bucket)
	ctx, cancel := context.WithTimeout(r.Context(), requestWithin)
	defer cancel()
	var u Upcoming
	if err := r.read.gather(ctx, func() error {
		var ok bool
		u, ok = s.expected(ctx, &q, int64(now))
		if ok || ctx.Err() != nil { // the owners were asked for as much, whether they answered in time or not
			r.read.charge(n)
		}
		if ok {
			return nil
		}
		f, err := s.router.Forecast(ctx, q, s.timetable)
		if err == nil {
			u = upcoming(&f, &q)
		}
		return err
	}); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, u)
}

// expected answers from the owners' pictures. ok is false if they do not have the buckets, if a
// partition does not answer or has no picture yet, or if a picture does not tell all tenants and
// channels apart: the shape has no place to say so.
func (s *triggerViews) expected(ctx context.Context, q *peer.ForecastQuery, now int64) (u Upcoming, ok bool) {
	of, skipped, ok := pictureQuery(q, now)
	if !ok {
		return u, false
	}
	sum, silent, err := s.router.Expected(ctx, of)
	if err != nil || len(silent) > 0 || sum.Incomplete {
		return u, false
	}
	f := peer.Forecast{Channels: map[string][]int{}}
	per := int(q.Bucket / forecast.Frames[of.Frame].Width.Milliseconds())
	for channel, due := range sum.By {
		counts := make([]int, q.N)
		for i, n := range due {
			counts[(skipped+i)/per] += int(n)
		}
		f.Channels[channel] = counts
	}
	return upcoming(&f, q), true
}

// pictureQuery is the question to the owners' pictures that has the answer to q: its buckets are
// whole minutes or hours, and end where pictures do or before. Pictures begin with the bucket
// under way, and q may begin before: skipped is how many of their buckets are over.
func pictureQuery(q *peer.ForecastQuery, now int64) (of forecast.Query, skipped int, ok bool) {
	end := int64(q.From) + q.Bucket*int64(q.N)
	for i, f := range forecast.Frames {
		width, first := f.Width.Milliseconds(), f.First(now)
		if q.Bucket%width != 0 || end > first+int64(f.Buckets)*width {
			continue
		}
		return forecast.Query{
			Frame: i, FirstMS: first, N: int((end - first) / width), Tenant: q.Tenant, By: "channel",
		}, int((first - int64(q.From)) / width), true
	}
	return of, 0, false
}

func bucketParam(text string) (time.Duration, error) {
	if text == "" {
		return defaultBucket, nil
	}
	d, err := calendar.ParseDuration(text)
	if err != nil || d < time.Second || d > maxBucket {
		return 0, problem.BadParameter("bucket", "bucket is a duration from 1s to 366d, such as 1m")
	}
	return d, nil
}

func upcoming(f *peer.Forecast, q *peer.ForecastQuery) Upcoming {
	u := Upcoming{Items: make([]UpcomingBucket, q.N)}
	for i := range u.Items {
		b := &u.Items[i]
		b.At = (q.From + trigger.Instant(int64(i)*q.Bucket)).String()
		for channel, counts := range f.Channels {
			if counts[i] == 0 {
				continue
			}
			if b.Channels == nil {
				b.Channels = map[string]int{}
			}
			b.Channels[channel] = counts[i]
			b.Count += counts[i]
		}
	}
	return u
}
