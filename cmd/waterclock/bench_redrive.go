package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchRedrive(a *app) *cobra.Command {
	o, asJSON := loadtest.RedriveOptions{}, false
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Measure the redrive of many dead letters: how many a second, its progress, memory",
		Long: `Measure the redrive of many dead letters. A dev process of its own fires triggers
on a channel whose worker, here, answers failed to each. One request then tries
all dead letters again. What goes out is read and compared: each once, under its
ce_id, as the next attempt. A second request must find nothing to do.

CPU and memory are of that process: broker, engine, history and API. --brokers is
not used: the process has its own.`,
		Example: "  waterclock bench redrive --letters 50000\n  waterclock bench redrive --letters 1000000 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("letters", o.Letters, 1, 10_000_000), payloadWithin(o.Payload),
				within("rate", o.Rate, 1, 100_000)); err != nil {
				return err
			}
			if cmd.Flags().Changed("brokers") {
				return usagef("--brokers: bench redrive starts dev, which has its own broker")
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureRedrive(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printBenchRedrive(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Letters, "letters", 100_000, "how many dead letters")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each")
	f.IntVar(&o.Rate, "rate", 100_000, "how many the redrive may send a second")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printBenchRedrive(r *loadtest.RedriveResult, asJSON bool) error {
	return a.printMeasured(r, asJSON, [][2]string{
		row("dead letters", "%d of %d B payload, listed after %.1f s", r.Letters, r.Payload, r.FilledS),
		row("dry run", "%.2f s", r.DryRunS),
		row("redriven/s", "%.0f, %.0f µs CPU each", r.PerS, r.CPUPerLetter),
		row("progress", "%d lines, at most %.2f s apart; cut off and repeated %d times", r.Progress, r.LongestGapS,
			r.Repeated),
		row("duplicate/refused/pending", "%d / %d / %d", r.Duplicate, r.Refused, r.Pending),
		row("lost/doubled/wrong", "%d / %d / %d", r.Lost, r.Doubled, r.Wrong),
		row("redriven by a second run", "%d", r.Second),
		row("RSS before/peak", "%d / %d MB", r.RSSBefore>>20, r.RSSPeak>>20),
	})
}
