package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
	"github.com/waterclock/waterclock/topics"
)

func newBench(a *app) *cobra.Command {
	o, asJSON := loadtest.EngineOptions{}, false
	delay := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure registers/s, fires/s and lateness, on the embedded broker or yours",
		Long: `Measure registers per second, fires per second and lateness. An engine of its
own runs in this process, against the embedded broker in a temporary directory,
or against --brokers under topics of its own (prefix waterclock-bench-<n>.).
Every due event is read back by a read_committed consumer; lateness is from
the due time to the moment that consumer has the record.

Without --rate all triggers are registered first and fall due over --window
(0s: at one instant). With --rate they are registered at that rate, each due a
second later, so that registers and fires run side by side.`,
		Example: "  waterclock bench --triggers 200000 --window 10s\n" +
			"  waterclock bench --triggers 600000 --rate 20000 --json\n" +
			"  waterclock bench --triggers 1000000 --window 0s",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("triggers", o.Triggers, 1, loadtest.MaxTriggers), payloadWithin(o.Payload),
				within("window", o.Window, 0, 24*time.Hour), within("rate", o.Rate, 0, 1_000_000),
				within("broker-delay", delay, 0, time.Second)); err != nil {
				return err
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			setup.Delay = delay
			r, err := loadtest.MeasureEngine(cmd.Context(), setup, o)
			if r == nil {
				return err
			}
			return cmp.Or(a.printBench(r, asJSON), err)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Triggers, "triggers", 200_000, "how many triggers")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each, incompressible")
	f.DurationVar(&o.Window, "window", 10*time.Second, "time over which they fall due; 0s is one instant")
	f.IntVar(&o.Rate, "rate", 0, "registers per second, each due one second later; 0 registers all first")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	f.StringVar(&o.Profile, "cpuprofile", "", "write a CPU profile to `file`")
	f.IntSliceVar(&o.Brokers, "broker-pid", nil, "processes of the brokers on this machine, for their CPU time")
	f.BoolVar(&o.Sync, "sync", true, "embedded broker: acknowledge only what is on stable storage")
	f.DurationVar(&delay, "broker-delay", 0, "add this to every answer of the brokers to the engine; not with TLS")
	cmd.AddCommand(newBenchHTTP(a), newBenchFairness(a), newBenchWebhook(a), newBenchRedrive(a), newBenchNotify(a),
		newBenchReminders(a), newBenchCampaign(a), newBenchConsole(a), newBenchConsoles(a))
	return cmd
}

// benchSetup returns the settings of benchmarks that start their own engine.
func (a *app) benchSetup(cmd *cobra.Command) (loadtest.Setup, error) {
	c, err := a.config(true)
	if err != nil {
		return loadtest.Setup{}, err
	}
	c.Log.Level = "warn"
	return loadtest.Setup{
		Config: c, Logger: a.log(c), Embedded: !cmd.Flags().Changed("brokers"), Commit: buildCommit(),
	}, nil
}

// printMeasured prints a result. --json is the same as -o json.
func (a *app) printMeasured(r any, asJSON bool, rows [][2]string) error {
	if asJSON {
		a.out.format = "json"
	}
	return a.out.record(r, rows)
}

// row returns one line of the result table.
func row(name, format string, v ...any) [2]string { return [2]string{name, fmt.Sprintf(format, v...)} }

func late(name string, l loadtest.Lateness) [2]string {
	return row(name, "%.1f / %.1f / %.1f ms", l.P50, l.P99, l.Max)
}

func (a *app) printBench(r *loadtest.EngineResult, asJSON bool) error {
	return a.printMeasured(r, asJSON, [][2]string{
		row("broker", "%s, %d partitions", r.Broker, r.Partitions),
		row("triggers", "%d of %d B payload", r.Triggers, r.Payload),
		row("raw produce/s", "%.0f", r.RawPerS),
		row("registers/s", "%.0f (%.2f of raw)", r.RegistersPerS, r.RegistersPerS/r.RawPerS),
		row("fires/s", "%.0f (%.2f of raw)", r.FiresPerS, r.FiresPerS/r.RawPerS),
		row("raw lives/s", "%.0f", r.RawLivesPerS),
		row("lives/s", "%s", ofRaw(r)),
		late("lateness p50/p99/max", r.Lateness), row("p50 by tenth of the run", "%.1f ms", r.LateByTenth),
		row("last out after last due", "%.2f s", r.LastOutS),
		row("CPU", "%.1f s, %.1f µs a life; brokers %.1f µs", r.CPUSeconds, r.CPUPerLifeUS, r.BrokerCPUUS),
		row("bytes a life", "%.0f produced by the engine; at rest %s", r.WireBytes, atRest(r.RestBytes)),
		row("requests of 1,000 lives", "%s", requestsOf(r.Requests)),
		row("peak RSS", "%d MB", r.RSSBytes>>20), row("turns", "%d, commit %.1f ms", r.Turns, r.CommitMS),
		row("a turn's time", "%s", turnOf(r.TurnMS)),
		row("store bytes/trigger", "%.0f", r.BytesPerTrigger),
		row("lost/doubled/early", "%d / %d / %d", r.Lost, r.Duplicates, r.Early),
	})
}

func ofRaw(r *loadtest.EngineResult) string {
	if r.LivesPerS == 0 {
		return "- (measure it with --window 0s)"
	}
	return fmt.Sprintf("%.0f (%.2f of raw)", r.LivesPerS, r.OfRaw)
}

// turnOf lists what the time of a turn goes to, the most first.
func turnOf(parts map[string]float64) string {
	var list []string
	for _, part := range slices.SortedFunc(maps.Keys(parts), func(a, b string) int {
		return cmp.Or(cmp.Compare(parts[b], parts[a]), cmp.Compare(a, b))
	}) {
		list = append(list, fmt.Sprintf("%s %.2f ms", part, parts[part]))
	}
	return strings.Join(list, ", ")
}

// requestsOf lists what an engine sent to brokers for 1,000 lives, the most first.
func requestsOf(perLife map[string]float64) string {
	parts := []string{}
	for _, kind := range slices.SortedFunc(maps.Keys(perLife), func(a, b string) int {
		return cmp.Or(cmp.Compare(perLife[b], perLife[a]), cmp.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%s %.1f", kind, 1000*perLife[kind]))
	}
	return strings.Join(parts, ", ")
}

func atRest(byTopic map[string]float64) string {
	sum, parts := 0.0, []string{}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		sum += byTopic[topic]
		parts = append(parts, fmt.Sprintf("%s %.0f", topic, byTopic[topic]))
	}
	if sum == 0 {
		return "not known"
	}
	return fmt.Sprintf("%.0f (%s)", sum, strings.Join(parts, ", "))
}

// within refuses a value outside the given range before anything is started. Such a value means
// nothing, or no machine can hold it.
func within[N int | time.Duration](flag string, value, least, most N) error {
	if value < least || value > most {
		return usagef("--%s %v: write %v to %v", flag, value, least, most)
	}
	return nil
}

// payloadWithin bounds --payload by the largest value that limits.payload allows.
func payloadWithin(size int) error { return within("payload", size, 0, topics.MaxPayload) }
