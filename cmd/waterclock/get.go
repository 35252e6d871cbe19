package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"github.com/spf13/cobra"
)

func newGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get KEY...",
		Short: "Print triggers",
		Args:  keysArg,
		RunE: func(cmd *cobra.Command, keys []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.get(cmd.Context(), newAPI(c), keys)
		},
	}
}

// get prints what there is and joins what there is not.
func (a *app) get(ctx context.Context, from *api, keys []string) error {
	var failed []error
	for _, key := range keys {
		var t map[string]any
		if err := from.get(ctx, triggerPath(key), &t); err != nil {
			failed = append(failed, a.unknownKey(ctx, from, key, fmt.Errorf("%s: %w", key, err)))
			continue
		}
		if err := a.out.record(t, triggerRows(t)); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// firstRows is the order in which a person reads a trigger; whatever else the
// API says follows by name.
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

// cell is a JSON value in a table: text bare, nothing for null.
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
