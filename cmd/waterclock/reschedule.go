package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newReschedule(a *app) *cobra.Command {
	f, when := &commandFlags{revision: true}, &timeFlags{}
	cmd := a.verb(trigger.OpReschedule, "reschedule", "Change only when triggers fire", f, when.fields)
	when.bind(cmd)
	return cmd
}
