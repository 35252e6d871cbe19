package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/loadtest"
)

func newBenchConsole(a *app) *cobra.Command {
	o, asJSON := loadtest.ConsoleOptions{}, false
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Measure what the console reads, and what many open consoles cost",
		Long: `Measure what the console reads: lists, search, explain and the forecast of 90
days, each at --rate with fresh=false, of a dev process of its own. Meanwhile
--pending triggers wait, one in ten of them a series, and --fires a second fire.

Then --consoles are open: a stream for each, and what page Now reads every ten
seconds. Lateness of due events and the CPU of the server are measured before
and beside them, and how old a fact is when a stream has it.`,
		Example: "  waterclock bench console --pending 100000\n  waterclock bench console --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(within("for", o.For, time.Second, time.Hour),
				within("pending", o.Pending, 1, loadtest.MaxTriggers), within("fires", o.Fires, 1, 100_000),
				within("rate", o.Rate, 1, 10_000), within("consoles", o.Consoles, 1, 250),
				payloadWithin(o.Payload)); err != nil {
				return err
			}
			if cmd.Flags().Changed("brokers") {
				return usagef("--brokers: bench console starts dev, which has its own broker")
			}
			setup, err := a.benchSetup(cmd)
			if err != nil {
				return err
			}
			r, err := loadtest.MeasureConsole(cmd.Context(), setup, o)
			if err != nil {
				return err
			}
			return a.printBenchConsole(r, asJSON)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.For, "for", 15*time.Second, "length of each measurement")
	f.IntVar(&o.Pending, "pending", 1_000_000, "triggers that are pending, one in ten a series")
	f.IntVar(&o.Fires, "fires", 2000, "triggers that fire a second")
	f.IntVar(&o.Rate, "rate", 20, "reads a second")
	f.IntVar(&o.Consoles, "consoles", 100, "open consoles")
	f.IntVar(&o.Payload, "payload", 200, "payload `bytes` of each")
	f.BoolVar(&asJSON, "json", false, "print JSON, as -o json")
	return cmd
}

func (a *app) printBenchConsole(r *loadtest.ConsoleResult, asJSON bool) error {
	read := func(name string, l loadtest.Lateness) [2]string {
		return row(name, "%.1f / %.1f / %.1f ms", l.P50, l.P95, l.P99)
	}
	side := func(name string, w loadtest.Watched) [2]string {
		return row(name, "%.1f / %.1f / %.1f ms; %.2f cores", w.Late.P50, w.Late.P95, w.Late.P99, w.Cores)
	}
	return a.printMeasured(r, asJSON, [][2]string{
		row("pending", "%d, %d fires/s, %d reads/s", r.Pending, r.Fires, r.Rate),
		row("all times", "p50 / p95 / p99"),
		read("list by next fire", r.List), read("list of a user", r.UserList), read("search of a key", r.Search),
		read("search of a user", r.SearchUser), read("explain", r.Explain), read("forecast of 90 days", r.Forecast),
		read("age of a fact", r.Fact), side("lateness without consoles", r.Alone),
		side(fmt.Sprintf("lateness with %d consoles", r.Consoles), r.Watched),
	})
}

// newBenchConsoles is the process that bench console starts for the consoles' clients.
func newBenchConsoles(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "consoles HOST:PORT N",
		Short:  "Act as N browsers that show page Now, until the input ends",
		Args:   cobra.ExactArgs(2),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return usagef("%q is no number of consoles", args[1])
			}
			return loadtest.OpenConsoles(cmd.Context(), args[0], n, a.io.in, a.io.out)
		},
	}
}
