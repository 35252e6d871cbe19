package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
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
// multiple of its length at or before now, and includes what is overdue.
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
	var f peer.Forecast
	if err := r.read.gather(ctx, func() (err error) {
		f, err = s.router.Forecast(ctx, q, s.timetable)
		return err
	}); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, upcoming(&f, &q))
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
