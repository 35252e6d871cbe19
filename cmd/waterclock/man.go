package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes manual pages, for packagers of the program.
func newMan(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command into a directory",
		Args:  argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return failf("cannot make %s: %v", args[0], cause(err))
			}
			root := cmd.Root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			root.DisableAutoGenTag = true // no date, so that the same source gives the same pages
			header := &doc.GenManHeader{
				Section: "1", Source: "Waterclock " + buildVersion(),
				Manual: "Waterclock manual",
			}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return failf("write manual pages: %v", err)
			}
			return nil
		},
	}
}
