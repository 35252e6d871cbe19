package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newPause(a *app) *cobra.Command {
	var note string
	cmd := a.verb(trigger.OpPause, "pause", "Stop triggers from firing until resumed", &commandFlags{},
		noteField(&note))
	cmd.Flags().StringVar(&note, "note", "", "reason, which get shows")
	return cmd
}

func noteField(note *string) func() (map[string]any, error) {
	return func() (map[string]any, error) {
		out := map[string]any{}
		put(out, "note", *note)
		return out, nil
	}
}
