package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newCancel(a *app) *cobra.Command {
	cmd := a.verb(trigger.OpCancel, "cancel", "End triggers before they fire", &commandFlags{revision: true}, nil)
	cmd.Long = "End triggers before they fire. Exit code 3: there is no such trigger; 4: it has fired already, " +
		"and where is printed."
	return cmd
}
