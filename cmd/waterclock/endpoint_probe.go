package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/egress"
)

func newEndpointsTest(a *app) *cobra.Command {
	var asked gateway.EndpointTest
	cmd := &cobra.Command{
		Use:   "test URL",
		Short: "Check a callback URL: is it allowed, what does its host resolve to, which TLS does it show",
		Long: `Check a callback URL. Do the settings allow it? Which addresses
does its host resolve to, and may they be called? Which TLS and certificate does it show?
With --send it makes a request, and prints the status of the answer: the receiver gets
a POST with the X-Trigger-Id "endpoint-test", unsigned.

The process behind --url tests it, with its own settings and network, as webhook workers
would. It needs an operator's key. The exit code is 2 if the URL is not allowed, and 1
if there was no connection or no 2xx answer.`,
		Example: "  waterclock endpoints test https://hooks.example.com/in\n" +
			"  waterclock endpoints test https://hooks.example.com/in --send --tenant acme -o json",
		Args: argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			from.within = 30 * time.Second // the API takes up to 20 s
			asked.URL = args[0]
			_, answer, err := from.call(cmd.Context(), http.MethodPost, "/v1/endpoints:test", nil, asked)
			if err != nil {
				return err
			}
			var r egress.Report
			if err := json.Unmarshal(answer, &r); err != nil {
				return fmt.Errorf("the answer of %s is not from a Waterclock API: %w", from.base, err)
			}
			if err := a.out.record(r, reportRows(&r)); err != nil {
				return err
			}
			return verdict(&r)
		},
	}
	cmd.Flags().BoolVar(&asked.Send, "send", false, "make a request, and print the status of the answer")
	cmd.Flags().StringVar(&asked.Tenant, "tenant", "", "tenant of the callback (default the caller's tenant)")
	return cmd
}

// verdict returns why a callback would fail, or nil if the probe found no reason.
func verdict(r *egress.Report) error {
	switch {
	case r.Code != "":
		return usagef("%s: %s", r.Code, r.Detail)
	case r.Detail != "":
		return failf("%s", r.Detail)
	case r.Answer != nil && !r.Answer.Acknowledges:
		return failf("status %d is not an acknowledgement: only 2xx is", r.Answer.Status)
	}
	return nil
}

func reportRows(r *egress.Report) [][2]string {
	rows := [][2]string{{"origin", r.Origin}, {"allowed", yes(r.Allowed)}, {"listed", yes(r.Listed)}}
	for _, at := range r.Addresses {
		text := at.Address
		if !at.Allowed {
			text += " (not allowed)"
		}
		rows = append(rows, [2]string{"address", text})
	}
	if t := r.TLS; t != nil {
		trusted := ""
		if !t.Trusted {
			trusted = " (not trusted)"
		}
		rows = append(rows, [2]string{"tls", t.Version + ", " + t.Protocol},
			[2]string{"certificate", strings.Join(t.Names, " ") + trusted},
			[2]string{"issuer", t.Issuer}, [2]string{"expires", t.Expires.Format(time.RFC3339)})
	}
	if r.Took.Connect > 0 {
		rows = append(rows, [2]string{"connects in", strconv.FormatInt(r.Took.Connect, 10) + " ms"})
	}
	if r.Answer != nil {
		rows = append(rows, [2]string{"answer", fmt.Sprintf("%d in %d ms", r.Answer.Status, r.Took.Answer)})
	}
	return rows
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
