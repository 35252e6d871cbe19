package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/node"
)

func newBackup(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the data directory of `waterclock dev`, while it runs or not, and verify the copy",
		Long: `Copy the data directory of ` + "`waterclock dev`" + ` into a new directory, and open the
copy to verify it. dev keeps running. The copy has everything that was
acknowledged when the backup began, and every transaction whole or not at all.

Run it on the machine of dev, as the same user, with the same --data-dir. To
restore, stop dev and start it with --data-dir DIR, or with a copy of DIR.
docs/operations/backup.md says what a restore brings back, and what to back up
on a cluster.`,
		Example: "  waterclock backup /backup/2026-11-24 --data-dir /var/lib/waterclock",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(true)
			if err != nil {
				return err
			}
			r, err := node.Backup(cmd.Context(), c, args[0], a.log(c))
			if err != nil {
				return err
			}
			return a.out.record(r, [][2]string{
				{"backup", r.Dir},
				{"taken at", r.TakenAt.Format(time.RFC3339Nano)},
				{"holds", fmt.Sprintf("%s, %s", plural(r.Files, "file"), bytesText(uint64(r.Bytes)))},
				{"verified", "yes: it was opened, in " + r.Took.Round(time.Millisecond).String()},
			})
		},
	}
}
