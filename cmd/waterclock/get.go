package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sort"

	"github.com/spf13/cobra"
)

func newGet(a *app) *cobra.Command {
	var asOf string
	cmd := &cobra.Command{
		Use:   "get KEY...",
		Short: "Print triggers, as they are or as they were",
		Long: `Print triggers. With --as-of T, print what they were at an instant that is over,
from the history.`,
		Example: "  waterclock get k\n  waterclock get k --as-of 2026-03-03T14:00:00Z",
		Args:    keysArg,
		RunE: func(cmd *cobra.Command, keys []string) error {
			if err := refuseEmpty(cmd.Flags(), "as-of"); err != nil {
				return err
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			query := ""
			if asOf != "" {
				query = "?as_of=" + url.QueryEscape(asOf)
			}
			return a.get(cmd.Context(), newAPI(c), keys, query)
		},
	}
	cmd.Flags().StringVar(&asOf, "as-of", "", "what they were at this `time`: 2026-03-03T14:00:00Z")
	return cmd
}

// get prints the triggers that exist, and joins the errors of the others.
func (a *app) get(ctx context.Context, from *api, keys []string, query string) error {
	var failed []error
	for _, key := range keys {
		var t map[string]any
		if err := from.get(ctx, triggerPath(key)+query, &t); err != nil {
			err = fmt.Errorf("%s: %w", key, err)
			if query == "" { // with a query, a key that exists now would be no better suggestion
				err = a.unknownKey(ctx, from, key, err)
			}
			failed = append(failed, err)
			continue
		}
		if err := a.out.record(t, triggerRows(t)); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// firstRows are the fields shown first, in this order. The other fields follow, sorted by name.
var firstRows = []string{
	"trigger_id", "tenant", "state", "revision", "channel", "user_id", "next_fire_at", "fire_at",
	"local_time", "timezone", "recurrence", "payload", "payload_base64",
}

func triggerRows(t map[string]any) [][2]string {
	var rows [][2]string
	seen := map[string]bool{}
	for _, name := range firstRows {
		rows, seen[name] = append(rows, [2]string{name, cell(t[name])}), true
	}
	var rest []string
	for name := range t {
		if !seen[name] {
			rest = append(rest, name)
		}
	}
	sort.Strings(rest)
	for _, name := range rest {
		rows = append(rows, [2]string{name, cell(t[name])})
	}
	return rows
}

// cell formats a JSON value for a table: strings without quotes, and "" for null.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
