package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newEndpoints(a *app) *cobra.Command {
	return parent("endpoints", "Show the state of the origins that webhooks call, and test them", newEndpointsList(a),
		newEndpointsTest(a))
}

func newEndpointsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print the origins that webhooks call, with their breakers: the worst first",
		Long: `Print the origins that webhooks call, for each tenant: the state of the breaker,
calls under way, calls answered and failed, and why the last one was not delivered. It
uses the API at --url and needs an operator's key.`,
		Example: "  waterclock endpoints list\n" +
			"  waterclock endpoints list -o json --jq '.[] | select(.state==\"open\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var all gateway.Endpoints
			if err := from.get(cmd.Context(), "/v1/endpoints", &all); err != nil {
				return err
			}
			if all.Omitted > 0 {
				a.note("%d more endpoints are left out", all.Omitted)
			}
			items := anyOf(all.Items)
			columns := []string{
				"origin", "tenant", "state", "in flight", "ok", "failed", "last code", "until", "workers",
			}
			return a.out.list(items, columns, func(i int) []string { return endpointRow(&all.Items[i]) })
		},
	}
}

func endpointRow(e *gateway.Endpoint) []string {
	until := ""
	if e.Until != nil {
		until = e.Until.Format(time.RFC3339)
	}
	return []string{
		e.Origin, e.Tenant, e.State, strconv.Itoa(e.InFlight), strconv.FormatInt(e.OK, 10),
		strconv.FormatInt(e.Failed, 10), e.LastCode, until, strconv.Itoa(e.Workers),
	}
}
