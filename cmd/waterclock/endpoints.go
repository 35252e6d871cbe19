package main

import "github.com/spf13/cobra"

func newEndpoints(a *app) *cobra.Command {
	return parent("endpoints", "See how the origins that webhooks call fare, and test them", newEndpointsTest(a))
}
