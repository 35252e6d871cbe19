package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newErase(a *app) *cobra.Command {
	cmd := a.verb(trigger.OpErase, "erase", "Cancel triggers and forget their content", &commandFlags{}, nil)
	cmd.Long = "Cancel triggers and forget their content: state and history at once, copies in the logs as they " +
		"compact (8 days) or expire."
	return cmd
}
