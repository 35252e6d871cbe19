package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newWhoami(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Print who you are to the API, and what you may do there",
		Long: `Print who you are to the API at --url: the name by which events and topic audit know you,
your tenant, your roles and the rights that they give.`,
		Example: "  waterclock whoami\n  waterclock whoami -o json --jq .tenant",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var who gateway.Whoami
			if err := from.get(cmd.Context(), "/v1/whoami", &who); err != nil {
				return err
			}
			return a.out.record(who, whoamiRows(&who))
		},
	}
}

func whoamiRows(who *gateway.Whoami) [][2]string {
	actor, history := who.Actor, "yes"
	if actor == "" {
		actor = "nobody: no log-in is needed here"
	}
	if !who.History {
		history = "no: there are no lists of events, dead letters and notifications"
	}
	brokers := strings.Join(who.Brokers, ", ")
	if who.BrokersAuth {
		brokers += " (with TLS or a log-in)"
	}
	return [][2]string{
		{"actor", actor},
		{"tenant", who.Tenant},
		{"roles", strings.Join(who.Roles, ", ")},
		{"rights", strings.Join(who.Rights, ", ")},
		{"history", history},
		{"topics", who.TopicsPrefix + "*"},
		{"brokers", brokers},
	}
}
