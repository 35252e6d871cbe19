package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newPause(a *app) *cobra.Command {
	return a.verb(trigger.OpPause, "pause", "Stop triggers from firing until resumed; get shows the --note",
		&commandFlags{revision: true}, nil)
}
