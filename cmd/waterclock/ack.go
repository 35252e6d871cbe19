package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newAck(a *app) *cobra.Command {
	var occurrence string
	cmd := a.verb(trigger.OpAck, "ack", "Say that the user reacted: stops escalation", &commandFlags{},
		occurrenceField(&occurrence))
	cmd.Flags().StringVar(&occurrence, "occurrence", "", "which one (default all in flight)")
	return cmd
}
