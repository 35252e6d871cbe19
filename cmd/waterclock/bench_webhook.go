package main

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchWebhook(a *app) *cobra.Command {
	o, behind, asJSON := loadtest.WebhookOptions{}, loadtest.BreakerOptions{}, false
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
is of the others.

With --behind N, an engine and a worker in processes of their own call endpoints at
--rate. First they are measured alone, for --alone. Then N triggers of another
tenant, whose endpoint answers 500, fall due at one instant, and the same is
measured for --for beside them: how late the others are, how often each that waits
is emitted again, and what that costs. It takes as long as it says: no clock is
simulated. An hour with a million writes tens of GB to the broker.`,
		Example: "  waterclock bench webhook --events 200000\n  waterclock bench webhook --answer 20ms --json\n" +
			"  waterclock bench webhook --rate 1000 --events 60000 --endpoints 2\n" +
			"  waterclock bench webhook --rate 1000 --events 60000 --endpoints 2 --hanging 1\n" +
			"  waterclock bench webhook --behind 20000 --rate 200 --for 2m\n" +
			"  waterclock bench webhook --behind 1000000 --rate 200 --for 1h --json",
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
			if behind.Behind != 0 || anyChanged(cmd.Flags(), "behind", "for", "alone") {
				if err := checkBehind(cmd.Flags(), o, behind); err != nil {
					return err
				}
				behind.Rate, behind.Endpoints, behind.Payload = o.Rate, o.Endpoints, o.Payload
				return a.benchBreaker(cmd, behind, asJSON)
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
	f.IntVar(&behind.Behind, "behind", 0, "triggers due at one instant behind the breaker of a broken endpoint")
	f.DurationVar(&behind.For, "for", 2*time.Minute, "with --behind: how long is measured beside them")
	f.DurationVar(&behind.Alone, "alone", time.Minute, "with --behind: how long is measured without them")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func anyChanged(fs *pflag.FlagSet, names ...string) bool {
	return slices.ContainsFunc(names, fs.Changed)
}

func checkBehind(fs *pflag.FlagSet, o loadtest.WebhookOptions, b loadtest.BreakerOptions) error {
	if anyChanged(fs, "events", "hanging", "answer") {
		return usagef("--behind goes with --rate, --for, --alone, --endpoints and --payload")
	}
	return errors.Join(within("behind", b.Behind, 1, loadtest.MaxTriggers), within("rate", o.Rate, 1, 1_000_000),
		within("for", b.For, time.Second, 24*time.Hour), within("alone", b.Alone, time.Second, 24*time.Hour))
}

func (a *app) benchBreaker(cmd *cobra.Command, o loadtest.BreakerOptions, asJSON bool) error {
	setup, err := a.benchSetup(cmd)
	if err != nil {
		return err
	}
	r, err := loadtest.MeasureBreaker(cmd.Context(), setup, o)
	if err != nil {
		return err
	}
	return a.printBenchBreaker(r, asJSON)
}

func (a *app) printBenchBreaker(r *loadtest.BreakerResult, asJSON bool) error {
	late := func(k string, l loadtest.Lateness) [2]string {
		return row(k, "p50/p99/max %.1f / %.1f / %.1f ms", l.P50, l.P99, l.Max)
	}
	return a.printMeasured(r, asJSON, [][2]string{
		row("broker", "%s", r.Broker),
		row("behind the breaker", "%d, %d of them fired, for %.0f s of the machine's clock", r.Behind, r.FiredBehind,
			r.ForS),
		late("others alone", r.Alone), late("others beside them", r.Beside),
		row("lost/doubled", "%d / %d, at %d/s to %d endpoints", r.Lost, r.Doubled, r.Rate, r.Endpoints),
		row("re-emissions each", "most %d, mean %.1f; %d calls to the broken endpoint", r.MostEach, r.MeanEach,
			r.CallsToBroken),
		row("engine", "%.1f s CPU, %.2f cores in the busiest minute and %.2f in the last, peak RSS %d MB", r.EngineCPU,
			r.EngineBusiest, r.EngineLast, r.EngineRSS>>20),
		row("worker", "%.1f s CPU, peak RSS %d MB", r.WorkerCPU, r.WorkerRSS>>20),
	})
}

func (a *app) printBenchWebhook(r *loadtest.WebhookResult, asJSON bool) error {
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
	return a.printMeasured(r, asJSON, rows)
}
