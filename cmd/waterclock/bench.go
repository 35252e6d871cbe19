package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/config"
)

// benchOptions are the flags of bench (docs/operations/settings.md).
type benchOptions struct {
	triggers int
	payload  int
	window   time.Duration
	rate     int
	json     bool
	sync     bool
	profile  string
}

func newBench(a *app) *cobra.Command {
	o := benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure registers/s, fires/s and lateness, on the embedded broker or yours",
		Long: `Measure registers per second, fires per second and lateness. An engine of its
own runs in this process, against the embedded broker in a temporary directory,
or against --brokers under topics of its own (prefix waterclock-bench-<n>.).
Every due record is read back by a read_committed consumer; lateness is from
the due time to the moment that consumer has the record.

Without --rate all triggers are registered first and fall due over --window
(0s: at one instant). With --rate they are registered at that rate, each due a
second later, so that registers and fires run side by side.`,
		Example: "  waterclock bench --triggers 200000 --window 10s\n  waterclock bench --triggers 600000 --rate 20000 --json\n  waterclock bench --triggers 1000000 --window 0s",
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
			own := !cmd.Flags().Changed("brokers")
			return a.runBench(cmd.Context(), c, o, own)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.triggers, "triggers", 200_000, "how many triggers")
	f.IntVar(&o.payload, "payload", 200, "payload `bytes` of each, incompressible")
	f.DurationVar(&o.window, "window", 10*time.Second, "time over which they fall due; 0s is one instant")
	f.IntVar(&o.rate, "rate", 0, "registers per second, each due one second later; 0 registers all first")
	f.BoolVar(&o.json, "json", false, "print JSON, as -o json")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to `file`")
	f.BoolVar(&o.sync, "sync", true, "embedded broker: acknowledge only what is on stable storage")
	cmd.AddCommand(newBenchHTTP(a), newBenchFairness(a))
	return cmd
}

func (o *benchOptions) check() error {
	return errors.Join(within("triggers", o.triggers, 1, benchTriggers), benchPayload(o.payload),
		within("window", o.window, 0, 24*time.Hour), within("rate", o.rate, 0, 1_000_000))
}

// benchResult is what bench prints.
type benchResult struct {
	Triggers        int          `json:"triggers"`
	Payload         int          `json:"payload"`
	Window          string       `json:"window"`
	Rate            int          `json:"rate,omitempty"`
	Broker          string       `json:"broker"`
	Partitions      int          `json:"partitions"`
	RawPerS         float64      `json:"raw_per_s"` // the same registers, produced to a topic nobody reads
	RegistersPerS   float64      `json:"registers_per_s"`
	FiresPerS       float64      `json:"fires_per_s"`
	Lateness        benchLate    `json:"lateness_ms"`
	LastOutS        float64      `json:"last_out_s"` // from the last due time to the last record read
	CPUSeconds      float64      `json:"cpu_seconds"`
	RSSBytes        int64        `json:"rss_bytes"`
	BytesPerTrigger float64      `json:"bytes_per_trigger"` // of the store, with all of them pending
	Turns           int64        `json:"turns"`
	CommitMS        float64      `json:"commit_ms"` // mean duration of EndTransaction and the store's batch
	Duplicates      int          `json:"duplicates"`
	Lost            int          `json:"lost"`
	Early           int          `json:"early"`
	Machine         benchMachine `json:"machine"`
}

type benchLate struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type benchMachine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
}

func (a *app) runBench(ctx context.Context, c *config.Config, o benchOptions, embedded bool) error {
	return a.withBenchNode(ctx, c, embedded, o.sync, func(n *node, broker string) error {
		r, err := a.measure(ctx, n, o, broker)
		if err != nil {
			return err
		}
		return a.printBench(r, o)
	})
}

// withBenchNode runs f beside an engine of its own, on the embedded broker in a
// temporary directory or on the brokers that are set, and topics of its own.
func (a *app) withBenchNode(ctx context.Context, c *config.Config, embedded, sync bool, f func(n *node, broker string) error) error {
	dir, err := os.MkdirTemp("", "waterclock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.DataDir = dir
	c.Log.Level = "warn"
	name := "kafka"
	var inner []kgo.Opt
	if embedded {
		name = "embedded"
		b, err := broker.Start(ctx, broker.Options{Dir: filepath.Join(dir, "broker"), Listen: "127.0.0.1:0", Sync: sync, Logger: a.log(c)})
		if err != nil {
			return err
		}
		defer b.Close()
		c.Brokers, inner = []string{b.Addr()}, []kgo.Opt{kgo.Dialer(b.Dial)}
	} else {
		c.Topics.Prefix = "waterclock-bench-" + newID() + "."
		c.Group = c.Topics.Prefix + "engine"
	}
	n, err := newNode(c, a.log(c), true, inner...)
	if err != nil {
		return err
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openEngine(); err != nil {
		return err
	}
	life := newLife()
	defer life.end()
	life.start("engine", n.engine.Run)
	if err := n.awaitReady(ctx, life); err != nil {
		return err
	}
	return f(n, name)
}

func (a *app) printBench(r *benchResult, o benchOptions) error {
	if o.json {
		a.out.format = "json"
	}
	row := func(k, format string, v ...any) [2]string { return [2]string{k, fmt.Sprintf(format, v...)} }
	return a.out.record(r, [][2]string{
		row("broker", "%s, %d partitions", r.Broker, r.Partitions), row("triggers", "%d of %d B payload", r.Triggers, r.Payload),
		row("raw produce/s", "%.0f", r.RawPerS), row("registers/s", "%.0f (%.2f of raw)", r.RegistersPerS, r.RegistersPerS/r.RawPerS), row("fires/s", "%.0f (%.2f of raw)", r.FiresPerS, r.FiresPerS/r.RawPerS),
		row("lateness p50/p99/max", "%.1f / %.1f / %.1f ms", r.Lateness.P50, r.Lateness.P99, r.Lateness.Max),
		row("last out after last due", "%.2f s", r.LastOutS), row("CPU", "%.1f s", r.CPUSeconds), row("peak RSS", "%d MB", r.RSSBytes>>20),
		row("turns", "%d, commit %.1f ms", r.Turns, r.CommitMS),
		row("store bytes/trigger", "%.0f", r.BytesPerTrigger), row("lost/doubled/early", "%d / %d / %d", r.Lost, r.Duplicates, r.Early),
	})
}
