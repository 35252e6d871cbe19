package loadtest

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// HTTPOptions set how much is sent, and for how long.
type HTTPOptions struct {
	For         time.Duration // duration of each measurement
	Connections int           // connections that send single requests in parallel
	Batches     int           // batches in parallel
	Rate        int           // requests per second where latency is measured
	Pending     int           // triggers that are pending when a user's page is read
	Payload     int           // bytes per trigger
	Steady      time.Duration // how long to send registers at Rate, to watch the server's memory
	OwnServer   bool          // start the server; otherwise config.url names one
}

// HTTPResult is the output of bench http.
type HTTPResult struct {
	Broker      string `json:"broker"`
	Connections int    `json:"connections"`
	Payload     int    `json:"payload"`
	Rate        int    `json:"rate"`
	Pending     int    `json:"pending"`

	BarePerS   float64 `json:"bare_per_s"`   // a handler that only produces the body with acks=all
	SinglePerS float64 `json:"single_per_s"` // decided and answered
	SingleCPU  float64 `json:"single_cpu_us"`
	// Server CPU per request; with dev this includes the broker and the engine.
	BareCPU   float64 `json:"bare_cpu_us"`
	BatchPerS float64 `json:"batch_per_s"`
	BatchCPU  float64 `json:"batch_cpu_us"`

	// Single requests at --rate, from the time when each should have been sent.
	Register Lateness `json:"register_ms"`
	Get      Lateness `json:"get_ms"`
	List     Lateness `json:"list_ms"` // the first 100 of a user's pending triggers
	Answered int      `json:"answered"`
	Later    int      `json:"answered_202"`
	Refused  int      `json:"refused"`

	RSS     []int64 `json:"rss_bytes,omitempty"` // of the server, during --steady
	Machine Machine `json:"machine"`
}

// MeasureHTTP measures the API of a server in another process. That is dev if s.Embedded is set,
// else serve with its own topics.
func MeasureHTTP(ctx context.Context, s Setup, o HTTPOptions) (*HTTPResult, error) {
	allowPayload(s.Config, o.Payload)
	b := &httpRun{o: o, cfg: s.Config, log: s.Logger, ownBroker: s.Embedded, result: &HTTPResult{
		Connections: o.Connections, Payload: o.Payload, Rate: o.Rate, Pending: o.Pending, Machine: s.machine(),
	}}
	return b.measure(ctx)
}

// measure runs the measurements one after the other.
func (b *httpRun) measure(ctx context.Context) (*HTTPResult, error) {
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	defer b.stop()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"warm up", b.warmUp},
		{"single registers", b.single},
		{"bare handler", b.bare},
		{"batches", b.batch},
		{"single registers at a rate", b.paced},
		{"reads", b.gets},
		{"a user's page", b.lists},
		{"steady", b.steady},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r := b.result
	r.Answered, r.Later, r.Refused = int(b.count.answered.Load()), int(b.count.later.Load()),
		int(b.count.refused.Load())
	return r, nil
}

// hostOf returns the host and port of a URL.
func hostOf(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("bench http drives http://host:port, not %s", base)
	}
	return u.Host, nil
}
