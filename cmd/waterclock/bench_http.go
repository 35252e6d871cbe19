package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

// benchHTTPOptions are the flags of bench http.
type benchHTTPOptions struct {
	seconds     time.Duration
	connections int
	batches     int
	rate        int
	pending     int
	payload     int
	steady      time.Duration
	json        bool
}

func newBenchHTTP(a *app) *cobra.Command {
	o := benchHTTPOptions{}
	cmd := &cobra.Command{
		Use:   "http",
		Short: "Measure the HTTP API: registers/s alone and by batch, latencies, memory",
		Long: `Measure the HTTP API of a server in another process over keep-alive
connections: dev in a temporary directory, with --brokers serve on topics of its
own, with --url what runs there (beside --brokers for the bare handler).

In one run: single registers as fast as --connections send them, the same
through a bare handler that only produces the body to Kafka, batches of 10,000
lines, then at --rate the latency of registers and of reads, and of a user's
pending page among --pending triggers. With --steady registers go on at --rate
for so long, and memory is looked at.`,
		Example: "  waterclock bench http\n  waterclock bench http --pending 1000000 --steady 10m --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := a.config(true)
			if err != nil {
				return err
			}
			allowPayload(c, o.payload)
			b := &httpBench{o: o, cfg: c, log: a.log(c)}
			b.ownBroker, b.ownServer = !cmd.Flags().Changed("brokers"), !cmd.Flags().Changed("url")
			r, err := b.run(cmd.Context())
			if err != nil {
				return err
			}
			return a.printBenchHTTP(r, o)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.seconds, "for", 10*time.Second, "length of each measurement")
	f.IntVar(&o.connections, "connections", 128, "connections that send single requests side by side")
	f.IntVar(&o.batches, "batches", 2, "batches of 10,000 lines, or 64 MiB, side by side")
	f.IntVar(&o.rate, "rate", 1000, "requests a second where latency is measured")
	f.IntVar(&o.pending, "pending", 100_000, "triggers pending where a user's page is read, 1,000 a user")
	f.IntVar(&o.payload, "payload", 200, "payload `bytes` of each")
	f.DurationVar(&o.steady, "steady", 0, "how long registers go on at --rate while memory is looked at")
	f.BoolVar(&o.json, "json", false, "print JSON, as -o json")
	return cmd
}

func (o *benchHTTPOptions) check() error {
	return errors.Join(within("for", o.seconds, time.Second, time.Hour), within("connections", o.connections, 1, 10_000),
		within("batches", o.batches, 0, 1000), within("rate", o.rate, 1, 100_000), within("pending", o.pending, 0, benchTriggers),
		benchPayload(o.payload), within("steady", o.steady, 0, 24*time.Hour))
}

// benchHTTPResult is what bench http prints.
type benchHTTPResult struct {
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

	Register benchLate `json:"register_ms"` // one at --rate, from when it was to be sent
	Get      benchLate `json:"get_ms"`
	List     benchLate `json:"list_ms"` // 100 of a user's pending page
	Answered int       `json:"answered"`
	Later    int       `json:"answered_202"`
	Refused  int       `json:"refused"`

	RSS     []int64      `json:"rss_bytes,omitempty"` // of the server, over --steady
	Machine benchMachine `json:"machine"`
}

// run does one measurement after the other.
func (b *httpBench) run(ctx context.Context) (r *benchHTTPResult, err error) {
	r = &benchHTTPResult{Connections: b.o.connections, Payload: b.o.payload, Rate: b.o.rate, Pending: b.o.pending,
		Machine: benchMachine{runtime.NumCPU(), runtime.Version(), buildCommit()}}
	b.result = r
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	defer b.stop()
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"warm up", b.warmUp}, {"single registers", b.single}, {"bare handler", b.bare}, {"batches", b.batch}, {"single registers at a rate", b.paced},
		{"reads", b.gets}, {"a user's page", b.lists}, {"steady", b.steady},
	} {
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.Answered, r.Later, r.Refused = int(b.count.answered.Load()), int(b.count.later.Load()), int(b.count.refused.Load())
	return r, nil
}

func (a *app) printBenchHTTP(r *benchHTTPResult, o benchHTTPOptions) error {
	if o.json {
		a.out.format = "json"
	}
	row := func(k, format string, v ...any) [2]string { return [2]string{k, fmt.Sprintf(format, v...)} }
	late := func(k string, l benchLate) [2]string {
		return row(k, "%.1f / %.1f / %.1f ms", l.P50, l.P99, l.Max)
	}
	rows := [][2]string{
		row("server", "%s, %d connections, %d B payload", r.Broker, r.Connections, r.Payload),
		row("bare handler/s", "%.0f, %.0f µs CPU each", r.BarePerS, r.BareCPU),
		row("single registers/s", "%.0f (%.2f of bare), %.0f µs CPU each", r.SinglePerS, r.SinglePerS/max(r.BarePerS, 1), r.SingleCPU),
		row("batch registers/s", "%.0f (%.2f of bare), %.0f µs CPU each", r.BatchPerS, r.BatchPerS/max(r.BarePerS, 1), r.BatchCPU),
		late(fmt.Sprintf("register at %d/s p50/p99/max", r.Rate), r.Register), late("get p50/p99/max", r.Get),
		late(fmt.Sprintf("page of %d pending p50/p99/max", r.Pending), r.List), row("202 / refused", "%d / %d of %d", r.Later, r.Refused, r.Answered),
	}
	if n := len(r.RSS); n > 0 {
		rows = append(rows, row("server's RSS first/last", "%d / %d MB over %s", r.RSS[0]>>20, r.RSS[n-1]>>20, o.steady))
	}
	return a.out.record(r, rows)
}

// hostOf is where to dial a URL.
func hostOf(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", failf("bench http drives http://host:port, not %s", base)
	}
	return u.Host, nil
}
