package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway/peer"
)

func newReconcile(a *app) *cobra.Command {
	var dry bool
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Find and repair timers and history rows that differ from the triggers",
		Long: `Compare, in every partition, the timers with the states of the triggers, and the rows
of the history with both. Each difference is a leak (not of memory): a bug, or a disk that
lost something. It is repaired from topic state and from the events, unless --dry-run is
given. Nothing is emitted twice. Every engine does the same once an hour
(reconcile.interval), so this finds nothing as a rule. It uses the API at --url and needs
role operator. The exit code is 1 if leaks are left, or a partition was not checked.`,
		Example: "  waterclock reconcile --dry-run\n  waterclock reconcile -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			return a.reconcile(cmd.Context(), from, dry)
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only report")
	return cmd
}

// reconcile prints the line of each partition as it arrives, and then the leaks.
func (a *app) reconcile(ctx context.Context, from *api, dry bool) error {
	answer, err := from.open(ctx, http.MethodPost, "/v1/reconcile", nil, map[string]any{"dry_run": dry})
	if err != nil {
		return err
	}
	defer answer.Close()
	var all []peer.Reconciled
	var left, failed int64
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r peer.Reconciled
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("the answer of %s is not from a Waterclock API: %w", from.base, err)
		}
		all = append(all, r)
		left += r.Found - r.Mended
		if r.Error != "" {
			failed++
		}
		a.note("partition %d: %d triggers, %d timers, %d rows, %d leaks", r.Partition, r.Triggers, r.Timers, r.Rows,
			r.Found)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reconcile at %s: %w", from.base, err)
	}
	if err := a.printReconciled(all); err != nil {
		return err
	}
	switch {
	case failed > 0:
		return failf("%d partitions were not checked completely; try again", failed)
	case left > 0:
		return failf("%d leaks are left; see the table above", left)
	}
	return nil
}

// noteOf explains what the figures of a partition do not show.
func noteOf(r *peer.Reconciled) string {
	if r.Error == "" && r.RowsWhy == "" && r.Earlier > 0 {
		return fmt.Sprintf("the history begins later than the last event of %s", plural(int(r.Earlier), "trigger"))
	}
	return or(r.Error, r.RowsWhy)
}

func (a *app) printReconciled(all []peer.Reconciled) error {
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	items := anyOf(all)
	header := []string{"partition", "triggers", "timers", "overdue", "rows", "leaks", "mended", "note"}
	if err := a.out.list(items, header, func(i int) []string {
		r := &all[i]
		return []string{
			n(int64(r.Partition)), n(r.Triggers), n(r.Timers), n(r.Overdue), n(r.Rows), n(r.Found), n(r.Mended),
			noteOf(r),
		}
	}); err != nil {
		return err
	}
	for _, r := range all {
		for _, l := range r.Leaks {
			a.note("partition %d: %s of %s %s %s", r.Partition, l.Kind, or(l.TriggerID, "?"), l.Due, l.Detail)
		}
	}
	return nil
}
