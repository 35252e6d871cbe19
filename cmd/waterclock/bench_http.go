package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchHTTP(a *app) *cobra.Command {
	o, asJSON := loadtest.HTTPOptions{}, false
	cmd := &cobra.Command{
		Use:   "http",
		Short: "Measure the HTTP API: registers/s alone and by batch, latencies, memory",
		Long: `Measure the HTTP API of a server in another process over keep-alive
connections: dev in a temporary directory; with --brokers, serve on topics of its
own; with --url, the server at that URL (and --brokers for the bare handler).

In one run: single registers as fast as --connections send them, the same
through a bare handler that only produces the body to Kafka, batches of 10,000
lines, then at --rate the latency of registers and of reads, and of a user's
pending page among --pending triggers. With --steady registers go on at --rate
for so long, and memory is looked at.`,
		Example: "  waterclock bench http\n  waterclock bench http --pending 1000000 --steady 10m --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkBenchHTTP(o); err != nil {
				return err
			}
			c, err := a.config(true)
			if err != nil {
				return err
			}
			o.OwnServer = !cmd.Flags().Changed("url")
			r, err := loadtest.MeasureHTTP(cmd.Context(), loadtest.Setup{
				Config: c, Logger: a.log(c), Embedded: !cmd.Flags().Changed("brokers"), Commit: buildCommit(),
			}, o)
			if err != nil {
				return err
			}
			return a.printBenchHTTP(r, o.Steady, asJSON)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.For, "for", 10*time.Second, "length of each measurement")
	f.IntVar(&o.Connections, "connections", 128, "connections that send single requests side by side")
	f.IntVar(&o.Batches, "batches", 2, "batches of 10,000 lines, or 64 MiB, side by side")
	f.IntVar(&o.Rate, "rate", 1000, "requests a second where latency is measured")
	f.IntVar(&o.Pending, "pending", 100_000, "triggers pending where a user's page is read, 1,000 a user")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each")
	f.DurationVar(&o.Steady, "steady", 0, "how long registers go on at --rate while memory is looked at")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func checkBenchHTTP(o loadtest.HTTPOptions) error {
	return errors.Join(
		within("for", o.For, time.Second, time.Hour), within("connections", o.Connections, 1, 10_000),
		within("batches", o.Batches, 0, 1000), within("rate", o.Rate, 1, 100_000),
		within("pending", o.Pending, 0, loadtest.MaxTriggers), payloadWithin(o.Payload),
		within("steady", o.Steady, 0, 24*time.Hour),
	)
}

func (a *app) printBenchHTTP(r *loadtest.HTTPResult, steady time.Duration, asJSON bool) error {
	ofBare := func(k string, perS, cpu float64) [2]string {
		return row(k, "%.0f (%.2f of bare), %.0f µs CPU each", perS, perS/max(r.BarePerS, 1), cpu)
	}
	rows := [][2]string{
		row("server", "%s, %d connections, %d B payload", r.Broker, r.Connections, r.Payload),
		row("bare handler/s", "%.0f, %.0f µs CPU each", r.BarePerS, r.BareCPU),
		ofBare("single registers/s", r.SinglePerS, r.SingleCPU), ofBare("batch registers/s", r.BatchPerS, r.BatchCPU),
		late(fmt.Sprintf("register at %d/s p50/p99/max", r.Rate), r.Register),
		late("get p50/p99/max", r.Get),
		late(fmt.Sprintf("page of %d pending p50/p99/max", r.Pending), r.List),
		row("202 / refused", "%d / %d of %d", r.Later, r.Refused, r.Answered),
	}
	if n := len(r.RSS); n > 0 {
		rows = append(rows, row("server's RSS first/last", "%d / %d MB over %s", r.RSS[0]>>20, r.RSS[n-1]>>20, steady))
	}
	return a.printMeasured(r, asJSON, rows)
}
