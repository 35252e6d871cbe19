package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newResume(a *app) *cobra.Command {
	var note string
	cmd := a.verb(trigger.OpResume, "resume",
		"Let paused triggers fire again; their misfire policy decides on what was missed", &commandFlags{},
		noteField(&note))
	cmd.Flags().StringVar(&note, "note", "", "reason, which get shows")
	return cmd
}
