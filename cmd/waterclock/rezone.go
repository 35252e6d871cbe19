package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newRezone(a *app) *cobra.Command {
	var zone string
	cmd := a.verb(trigger.OpRezone, "rezone", "Move local-time triggers to another zone, wall times kept",
		&commandFlags{}, func() (map[string]any, error) {
			if zone == "" {
				return nil, usagef("name the new zone with --tz, such as Europe/Berlin")
			}
			return map[string]any{"timezone": zone}, nil
		})
	cmd.Flags().StringVar(&zone, "tz", "", "IANA `zone`: Europe/Berlin")
	return cmd
}
