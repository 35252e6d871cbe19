package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/lateness"
)

func newLateness(a *app) *cobra.Command {
	window := "1h"
	cmd := &cobra.Command{
		Use:   "lateness",
		Short: "Print how late due events were, as a curve",
		Long: `Print how late due events were in the last hour, minute by minute, or in the last minute
in steps of 5 s. It asks the API at --url.`,
		Example: "  waterclock lateness\n  waterclock lateness --window 1m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, ok := lateness.WindowOf(window); !ok {
				return usagef("--window %q: write 1m or 1h", window)
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var l gateway.Lateness
			if err := from.get(cmd.Context(), "/v1/lateness?window="+window, &l); err != nil {
				return err
			}
			if len(l.Silent) > 0 {
				a.note("partitions %v did not answer: their due events are missing", l.Silent)
			}
			if l.Incomplete {
				a.note("too many tenants and channels fired at once: counts of one tenant are too low")
			}
			if l.Since != "" {
				a.note("these counts begin at %s: a partition has a new owner", l.Since)
			}
			items := anyOf(l.Items)
			return a.out.list(items, []string{"at", "fires", "p50 ms", "p99 ms", "max ms"}, func(i int) []string {
				of := &l.Items[i].LatenessOf
				return []string{
					l.Items[i].At, strconv.FormatInt(of.Fires, 10), millis(of.P50), millis(of.P99), millis(of.Max),
				}
			})
		},
	}
	cmd.Flags().StringVar(&window, "window", window, "the last `1m or 1h`")
	return cmd
}

// millis formats a number that may be absent.
func millis(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}
