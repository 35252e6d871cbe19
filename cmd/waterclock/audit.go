package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newAudit(a *app) *cobra.Command {
	filters := map[string]*string{}
	limit := 1000
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Print who did what over HTTP in the last 400 days, the newest first",
		Long: `Print what callers of the API did and tried: who, what, to which trigger, why, and with
which HTTP status it was answered (400 and above: it was refused). The newest comes first.
It asks the API at --url, as an operator.`,
		Example: "  waterclock audit --key hold-8c4\n  waterclock audit --actor ada --from 2026-11-20T00:00Z",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := queryOf(cmd.Flags(), filters, "trigger")
			if err != nil {
				return err
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			all, err := fetchPages[gateway.AuditRecord](cmd.Context(), from, "/v1/audit", q, limit)
			if err != nil {
				return err
			}
			header := []string{"at", "actor", "verb", "trigger", "status", "note", "address"}
			return a.out.list(anyOf(all), header, func(i int) []string {
				r := &all[i]
				what := r.Trigger
				if what == "" {
					what = r.Target
				}
				return []string{r.At, r.Actor, r.Verb, what, strconv.Itoa(r.Status), r.Note, r.Address}
			})
		},
	}
	for name, help := range map[string]string{
		"actor": "only by this `name`", "key": "only to the trigger of this `KEY`", "verb": "only this `verb`",
		"from": "only recorded at or after this `time`", "to": "only recorded before this `time`",
		"tenant": "only by callers of this tenant",
	} {
		filters[name] = cmd.Flags().String(name, "", help)
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "at most this many; 0 for all")
	return cmd
}
