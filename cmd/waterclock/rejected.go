package main

import (
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newRejected(a *app) *cobra.Command {
	return parent("rejected", "List the commands that were refused", newRejectedList(a))
}

func newRejectedList(a *app) *cobra.Command {
	filters := map[string]*string{}
	limit := 1000
	var by string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print refused commands of the last 14 days, the newest first",
		Long: `Print the commands that the engine refused, with the code and what to write instead,
the newest first. --group-by counts them instead. It asks the API at --url.`,
		Example: "  waterclock rejected list --code unknown_zone\n  waterclock rejected list --key hold-8c4\n" +
			"  waterclock rejected list --group-by code",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := queryOf(cmd.Flags(), filters, "trigger_id")
			if err != nil {
				return err
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			if by != "" {
				q.Set("group_by", by)
				return a.countGroups(cmd.Context(), from, "/v1/rejected", q, by, "commands")
			}
			all, err := fetchPages[gateway.RejectedCommand](cmd.Context(), from, "/v1/rejected", q, limit)
			if err != nil {
				return err
			}
			items := anyOf(all)
			header := []string{"refused", "trigger", "code", "field", "detail", "source"}
			return a.out.list(items, header, func(i int) []string {
				c := &all[i]
				return []string{c.At, c.TriggerID, c.Code, c.Field, c.Detail, c.Source}
			})
		},
	}
	for name, help := range map[string]string{
		"code": "only with this code", "key": "only about the trigger of this `KEY`",
		"from": "only refused at or after this `time`", "to": "only refused before this `time`",
		"tenant": "operators: only of this tenant",
	} {
		filters[name] = cmd.Flags().String(name, "", help)
	}
	cmd.Flags().StringVar(&by, "group-by", "", "count by `code`")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "at most this many; 0 for all")
	return cmd
}
