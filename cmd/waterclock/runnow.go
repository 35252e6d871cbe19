package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newRunNow(a *app) *cobra.Command {
	return a.verb(trigger.OpRunNow, "run", "Fire once now, off schedule", &commandFlags{revision: true}, nil)
}
