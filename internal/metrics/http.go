package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// door is what the HTTP API tells. Metrics implements gateway.Listener.
type door struct {
	requests *prometheus.HistogramVec
	inFlight prometheus.Gauge
	streams  prometheus.Gauge
	dropped  prometheus.Counter
	audited  *prometheus.CounterVec
	records  *prometheus.CounterVec
}

func newDoor(r *prometheus.Registry) door {
	d := door{
		requests: histogramVec("http_request_seconds",
			"From a request's headers to the end of the answer; of an event stream to its beginning.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}, "method", "route", "status"),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_requests_in_flight",
			Help: "Requests under way, event streams included.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "http_event_streams",
			Help: "Open event streams.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "http_event_streams_dropped_total",
			Help: "Live streams that were ended because their reader was too slow.",
		}),
		audited: counterVec("audit_attempts_total",
			"Refused attempts, recorded or dropped because there were too many.", "outcome"),
		records: counterVec("audit_records_total", "Records of topic audit, by what became of them.", "outcome"),
	}
	fromZero(d.audited, "recorded", "dropped")
	r.MustRegister(d.requests, d.inFlight, d.streams, d.dropped, d.audited, d.records)
	return d
}

// RequestBegan and RequestEnded count a request.
func (d door) RequestBegan() { d.inFlight.Inc() }

func (d door) RequestEnded(method, route, status string, took time.Duration) {
	d.inFlight.Dec()
	d.requests.WithLabelValues(method, route, status).Observe(took.Seconds())
}

// Streams counts open event streams.
func (d door) Streams(change int) { d.streams.Add(float64(change)) }

// StreamDropped counts live streams whose reader was too slow.
func (d door) StreamDropped() { d.dropped.Inc() }

// Audited counts refused attempts.
func (d door) Audited(onRecord bool) {
	outcome := "recorded"
	if !onRecord {
		outcome = "dropped"
	}
	d.audited.WithLabelValues(outcome).Inc()
}

// AuditRecord counts records of topic audit.
func (d door) AuditRecord(outcome string) { d.records.WithLabelValues(outcome).Inc() }
