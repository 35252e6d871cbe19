package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchFairness(a *app) *cobra.Command {
	o, asJSON := loadtest.FairnessOptions{}, false
	cmd := &cobra.Command{
		Use:   "fairness",
		Short: "Measure how much one tenant's herd delays other tenants",
		Long: `Measure how late others are while one tenant has a herd due at one instant: the
triggers of another tenant, and those of priority high, due one millisecond
after the herd and then for as long as it lasts. The engine runs as in bench.
Lateness is from the due time to the moment a read_committed consumer of the
probes' own channel has the record. The same probes are measured alone first.`,
		Example: "  waterclock bench fairness\n  waterclock bench fairness --herd 200000 --brokers kafka-1:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("herd", o.Herd, 1, loadtest.MaxTriggers),
				within("probes", o.Probes, 1, 1_000_000),
				payloadWithin(o.Payload)); err != nil {
				return err
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureFairness(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printFairness(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Herd, "herd", 1_000_000, "triggers of one tenant, due at one instant")
	f.IntVar(&o.Probes, "probes", 1000,
		"triggers of each kind due one millisecond later, and as many over the seconds after")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each, incompressible")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	f.StringVar(&o.Profile, "cpuprofile", "", "write a CPU profile to `file`")
	return cmd
}

func (a *app) printFairness(r *loadtest.FairnessResult, asJSON bool) error {
	row := func(k string, l loadtest.ProbeLateness) [2]string {
		return [2]string{k, fmt.Sprintf("%.1f / %.1f / %.1f ms, %d lost", l.P50, l.P99, l.Max, l.Lost)}
	}
	return a.printMeasured(r, asJSON, [][2]string{
		{"broker", fmt.Sprintf("%s, %d partitions", r.Broker, r.Partitions)},
		{"herd", fmt.Sprintf("%d of %d B, out after %.2f s", r.Herd, r.Payload, r.HerdOutS)},
		row("p50/p99/max alone", r.AloneOther), row("high, alone", r.AloneHigh),
		row("another tenant, 1 ms later", r.Other), row("high, 1 ms later", r.High),
		row("another tenant, later", r.LaterOther), row("high, later", r.LaterHigh),
		{"CPU", fmt.Sprintf("%.1f s", r.CPUSeconds)},
		{"peak RSS", fmt.Sprintf("%d MB", r.RSSBytes>>20)},
	})
}
