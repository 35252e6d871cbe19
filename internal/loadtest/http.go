package loadtest

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// HTTPOptions say how much is sent, and for how long.
type HTTPOptions struct {
	For         time.Duration // length of each measurement
	Connections int           // that send single requests side by side
	Batches     int           // side by side
	Rate        int           // requests a second where latency is measured
	Pending     int           // triggers that are pending where a user's page is read
	Payload     int           // bytes of each
	Steady      time.Duration // how long registers go on at Rate, for the server's memory
	OwnServer   bool          // start the server; else config.url names one
}

// HTTPResult is what bench http prints.
type HTTPResult struct {
	Broker      string `json:"broker"`
	Connections int    `json:"connections"`
	Payload     int    `json:"payload"`
	Rate        int    `json:"rate"`
	Pending     int    `json:"pending"`

	BarePerS   float64 `json:"bare_per_s"`   // a handler that only produces the body, acks=all
	SinglePerS float64 `json:"single_per_s"` // decided and answered
	SingleCPU  float64 `json:"single_cpu_us"`
	BareCPU    float64 `json:"bare_cpu_us"` // server's CPU of one, with dev broker and engine in it
	BatchPerS  float64 `json:"batch_per_s"`
	BatchCPU   float64 `json:"batch_cpu_us"`

	Register Lateness `json:"register_ms"` // one at --rate, from when it was to be sent
	Get      Lateness `json:"get_ms"`
	List     Lateness `json:"list_ms"` // 100 of a user's pending page
	Answered int      `json:"answered"`
	Later    int      `json:"answered_202"`
	Refused  int      `json:"refused"`

	RSS     []int64 `json:"rss_bytes,omitempty"` // of the server, over --steady
	Machine Machine `json:"machine"`
}

// MeasureHTTP measures the API of a server in another process: dev if
// s.Embedded, else serve on topics of its own.
func MeasureHTTP(ctx context.Context, s Setup, o HTTPOptions) (*HTTPResult, error) {
	allowPayload(s.Config, o.Payload)
	b := &httpRun{o: o, cfg: s.Config, log: s.Logger, ownBroker: s.Embedded, result: &HTTPResult{
		Connections: o.Connections, Payload: o.Payload, Rate: o.Rate, Pending: o.Pending, Machine: s.machine(),
	}}
	return b.measure(ctx)
}

// measure does one measurement after the other.
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

// hostOf is where to dial a URL.
func hostOf(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("bench http drives http://host:port, not %s", base)
	}
	return u.Host, nil
}
