package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newResume(a *app) *cobra.Command {
	return a.verb(trigger.OpResume, "resume",
		"Let paused triggers fire again; their misfire policy decides on what was missed",
		&commandFlags{revision: true}, nil)
}
