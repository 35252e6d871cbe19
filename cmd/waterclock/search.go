package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newSearch(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "search TEXT",
		Short: "Find a trigger, a user, an occurrence or a record by its name",
		Long: `Find what a text names: the key of a trigger, a user_id, a ce_id, or the place of a
command, receipt or due event as topic/partition/offset. It asks the API at --url, and ends with
exit code 3 if nothing has this name.`,
		Example: "  waterclock search waterclock.commands/3/1042",
		Args:    argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var found gateway.FoundItems
			if err := from.get(cmd.Context(), "/v1/search?"+url.Values{"q": args}.Encode(), &found); err != nil {
				return err
			}
			if found.HistorySilent {
				a.note("the history does not answer: what the owners no longer have may be missing")
			}
			if found.KafkaSilent {
				a.note("Kafka does not answer for this record: it may be there")
			}
			if len(found.Items) == 0 {
				return &failure{Exit: exitNotFound, Msg: clean(args[0]) + ": not_found: no trigger, user, " +
					"occurrence or record has this name"}
			}
			items := anyOf(found.Items)
			heads := []string{"kind", "trigger", "user", "state", "code", "next"}
			return a.out.list(items, heads, func(i int) []string {
				f := &found.Items[i]
				return []string{f.Kind, f.TriggerID, f.UserID, f.State, f.Code, f.NextFireAt}
			})
		},
	}
}
