package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

func newSnooze(a *app) *cobra.Command {
	var duration, until string
	cmd := a.verb(trigger.OpSnooze, "snooze", "Move a one-shot, or fire a recurring one once more later",
		&commandFlags{revision: true},
		func() (map[string]any, error) {
			if (duration == "") == (until == "") {
				return nil, usagef("give --for or --until, and only one of them")
			}
			out := map[string]any{}
			put(out, "for", duration)
			put(out, "until", until)
			return out, nil
		})
	cmd.Flags().StringVar(&duration, "for", "", "`duration` from now: 10m")
	cmd.Flags().StringVar(&until, "until", "", "`time`: an instant, or a wall time in the trigger's zone")
	return cmd
}
