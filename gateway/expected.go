package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/trigger"
)

// Forecast says how much falls due, bucket by bucket.
type Forecast struct {
	AsOf       string           `json:"as_of" format:"date-time" doc:"When the oldest picture of a partition was made: what was registered, moved or cancelled since may be missing"`
	Items      []ForecastBucket `json:"items" doc:"From the bucket under way on. What was overdue when the picture was made counts as of then"`
	Incomplete bool             `json:"incomplete,omitempty" doc:"There are too many tenants, channels and priorities to tell them all apart: counts by them, and those of one tenant, are too low"`
	Silent     []int32          `json:"silent_partitions" doc:"Partitions that did not answer, or have not counted yet: what they expect is missing"`
}

// ForecastBucket counts the occurrences of a minute or an hour.
type ForecastBucket struct {
	At      string           `json:"at" format:"date-time" doc:"Where the bucket begins"`
	Nominal int64            `json:"nominal" doc:"By the instants that were asked for"`
	Due     int64            `json:"due" doc:"By the instants at which they fire: jitter included"`
	By      map[string]int64 `json:"by,omitempty" doc:"due by channel, priority or tenant, as asked for"`
}

func forecastRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/forecast", right: auth.Read, handle: p.forecasts.getForecast,
		costly: true, shared: true, doc: operation{
			id: "getForecast",
			summary: "Count what falls due by the minute or by the hour, recurrences expanded: of the caller's " +
				"tenant, to an operator of all tenants",
			query: []parameter{
				{
					name: "bucket", doc: "A minute (the default; up to 120) or an hour (up to 2160: 90 days)",
					kind: of[string](), oneOf: []string{"1m", "1h"},
				},
				{
					name: "n", doc: "How many buckets; by default 120 minutes or 168 hours", kind: of[int](),
					least: 1, most: forecast.Frames[1].Buckets,
				},
				{name: "by", doc: "Counts them separately", kind: of[string](), oneOf: forecast.Groups},
			},
			answers: answers{200: of[Forecast]()},
		},
	}}
}

// forecasts asks owners what they expect.
type forecasts struct {
	router *peer.Router
	now    func() time.Time
}

// defaultHours are the buckets of a week.
const defaultHours = 7 * 24

func (s *forecasts) getForecast(w http.ResponseWriter, r *request) error {
	q := forecast.Query{Tenant: r.ownTenant(), By: r.query.Get("by")}
	n := forecast.Frames[0].Buckets
	if at, ok := forecast.FrameOf(r.query.Get("bucket")); ok && at > 0 {
		q.Frame, n = at, defaultHours
	}
	frame := forecast.Frames[q.Frame]
	var err error
	if q.N, err = r.number("n", n, 1, frame.Buckets); err != nil {
		return err
	}
	q.FirstMS = frame.First(s.now().UnixMilli())
	ctx, cancel := context.WithTimeout(r.Context(), requestWithin)
	defer cancel()
	return r.sendGathered(ctx, w, func() (any, error) {
		sum, silent, err := s.router.Expected(ctx, q)
		r.read.charge(q.N * (1 + len(sum.By))) // the pictures are added up whether the answer is sent or not
		if peer.Moved(err) {
			return nil, problem.Unavailable(err, "no partition has answered and counted its occurrences yet: try again")
		}
		if err != nil {
			return nil, err
		}
		return forecastJSON(&sum, q, frame, silent), nil
	})
}

func forecastJSON(sum *forecast.Answer, q forecast.Query, frame forecast.Frame, silent []int32) Forecast {
	out := Forecast{
		AsOf: trigger.Instant(sum.AtMS).String(), Items: make([]ForecastBucket, q.N),
		Incomplete: sum.Incomplete, Silent: append([]int32{}, silent...),
	}
	for i := range out.Items {
		b := &out.Items[i]
		b.At = trigger.Instant(q.FirstMS + int64(i)*frame.Width.Milliseconds()).String()
		b.Nominal, b.Due = sum.Counts[i].Nominal, sum.Counts[i].Due
		for group, due := range sum.By {
			if due[i] == 0 {
				continue
			}
			if b.By == nil {
				b.By = map[string]int64{}
			}
			b.By[group] = due[i]
		}
	}
	return out
}
