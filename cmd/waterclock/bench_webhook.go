package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchWebhook(a *app) *cobra.Command {
	o, asJSON := loadtest.WebhookOptions{}, false
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Measure the webhook worker: callbacks/s, CPU and memory",
		Long: `Measure the webhook worker: due events are written first, to the embedded broker
in a temporary directory or to --brokers under topics of its own. Then a process
with the role webhook alone posts them to receivers in this process, signed. No
engine runs. CPU and memory are the worker's from its start to its end.

With --rate an engine in this process fires triggers that are registered at that
rate, each due a second later, and lateness is from the due time to the receiver.
With --hanging some of the endpoints never answer; what is lost, doubled and late
is of the others.`,
		Example: "  waterclock bench webhook --events 200000\n  waterclock bench webhook --answer 20ms --json\n" +
			"  waterclock bench webhook --rate 1000 --events 60000 --endpoints 2\n" +
			"  waterclock bench webhook --rate 1000 --events 60000 --endpoints 2 --hanging 1",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("events", o.Events, 1, 10_000_000), payloadWithin(o.Payload),
				within("endpoints", o.Endpoints, 1, 1000), within("answer", o.Answer, 0, time.Minute),
				within("rate", o.Rate, 0, 1_000_000), within("hanging", o.Hanging, 0, o.Endpoints-1)); err != nil {
				return err
			}
			if o.Hanging > 0 && o.Rate == 0 {
				return usagef("--hanging needs --rate: without an engine nobody sends again what is postponed")
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureWebhook(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printBenchWebhook(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Events, "events", 100_000, "how many due events")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each")
	f.IntVar(&o.Endpoints, "endpoints", 16, "receivers, an origin each")
	f.DurationVar(&o.Answer, "answer", 0, "how long a receiver takes to answer")
	f.IntVar(&o.Rate, "rate", 0, "triggers a second, with an engine; 0 writes due events first, without one")
	f.IntVar(&o.Hanging, "hanging", 0, "how many of the endpoints never answer")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printBenchWebhook(r *loadtest.WebhookResult, asJSON bool) error {
	if asJSON {
		a.out.format = "json"
	}
	row := func(k, format string, v ...any) [2]string { return [2]string{k, fmt.Sprintf(format, v...)} }
	rows := [][2]string{
		row("broker", "%s", r.Broker),
		row("due events", "%d of %d B payload, to %d endpoints", r.Events, r.Payload, r.Endpoints),
		row("callbacks/s", "%.0f", r.CallbacksPerS), row("CPU per callback", "%.0f µs", r.CPUPerCallback),
		row("peak RSS", "%d MB", r.RSSBytes>>20), row("lost/doubled", "%d / %d", r.Lost, r.Doubled),
	}
	if l := r.Lateness; l != nil {
		rows = append(rows, row("due to receiver", "p50/p99/max %.1f / %.1f / %.1f ms, at %d/s, %d endpoints hang",
			l.P50, l.P99, l.Max, r.Rate, r.Hanging))
	}
	return a.out.record(r, rows)
}
