package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/topics"
)

func newExplain(a *app) *cobra.Command {
	n := 5
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Say what a trigger is, when it fires next, and what happened to it",
		Args:  oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			x, err := fetchExplanation(cmd.Context(), newAPI(c), args[0], n)
			if err != nil {
				return err
			}
			return a.explain(x)
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many occurrences to look ahead")
	return cmd
}

// explanation is what the API knows of one trigger.
type explanation struct {
	Trigger     map[string]any   `json:"trigger"`
	Occurrences []map[string]any `json:"occurrences"`
	Events      []topics.Event   `json:"events"`
}

func fetchExplanation(ctx context.Context, from *api, key string, n int) (x explanation, err error) {
	if err = from.get(ctx, triggerPath(key), &x.Trigger); err != nil {
		return x, err
	}
	var ahead struct {
		Occurrences []map[string]any `json:"occurrences"`
	}
	if err = from.get(ctx, fmt.Sprintf("%s/occurrences?n=%d", triggerPath(key), n), &ahead); err != nil {
		return x, err
	}
	var past struct {
		Items []topics.Event `json:"items"`
	}
	if err = from.get(ctx, triggerPath(key)+"/events", &past); err != nil {
		return x, err
	}
	x.Occurrences, x.Events = ahead.Occurrences, past.Items
	return x, nil
}

func (a *app) explain(x explanation) error {
	if a.out.format != "table" {
		return a.out.json(x)
	}
	if err := a.out.record(x.Trigger, triggerRows(x.Trigger)); err != nil {
		return err
	}
	fmt.Fprintln(a.out.w, "\nnext occurrences")
	for _, o := range x.Occurrences {
		fmt.Fprintln(a.out.w, clean(fmt.Sprintf("  %s  %s  %s", cell(o["at"]), cell(o["local"]), cell(o["note"]))))
	}
	fmt.Fprintln(a.out.w, "\nwhat happened")
	for i := range x.Events {
		fmt.Fprintln(a.out.w, clean("  "+eventLine(&x.Events[i])))
	}
	return nil
}
