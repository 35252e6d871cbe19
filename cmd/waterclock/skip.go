package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newSkip(a *app) *cobra.Command {
	var occurrence string
	cmd := a.verb(trigger.OpSkip, "skip", "Leave out one occurrence", &commandFlags{revision: true},
		occurrenceField(&occurrence))
	cmd.Flags().StringVar(&occurrence, "occurrence", "", "local `date`, date-time or instant (default the next)")
	return cmd
}

func occurrenceField(occurrence *string) func() (map[string]any, error) {
	return func() (map[string]any, error) {
		out := map[string]any{}
		put(out, "occurrence", *occurrence)
		return out, nil
	}
}
