package main

import "github.com/spf13/cobra"

func newOccurrences(a *app) *cobra.Command {
	n := 10
	cmd := &cobra.Command{
		Use:   "occurrences KEY",
		Short: "List when a trigger will fire next",
		Args:  oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			api := newAPI(c)
			all, err := fetchOccurrences(cmd.Context(), api, args[0], n)
			if err != nil {
				return a.unknownKey(cmd.Context(), api, args[0], err)
			}
			items := anyOf(all)
			return a.out.list(items, []string{"at", "local time", "occurrence", "note"}, func(i int) []string {
				return []string{all[i].At, all[i].LocalTime, all[i].Occurrence, all[i].Note}
			})
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many to look ahead")
	return cmd
}
