package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newOccurrences(a *app) *cobra.Command {
	n := 10
	leftOut := false
	cmd := &cobra.Command{
		Use:   "occurrences KEY",
		Short: "List when a trigger will fire next, and what a calendar or a gap leaves out",
		Long: `List when a trigger will fire next. A table has what a calendar, or a gap of local time,
leaves out before the last of them, too, up to 100 of each kind, and says that it does not
fire. With -o json or ndjson that takes --left-out: such an item then has "left_out": true.`,
		Example: "  waterclock occurrences standup\n  waterclock occurrences standup -n 100 --left-out -o ndjson",
		Args:    oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			api := newAPI(c)
			ahead, err := fetchOccurrences(cmd.Context(), api, args[0], n)
			if err != nil {
				return a.unknownKey(cmd.Context(), api, args[0], err)
			}
			all := ahead.Items
			if leftOut || a.out.format == "table" {
				all = ahead.all()
			}
			return a.out.list(anyOf(all), []string{"at", "local time", "occurrence", "note"}, func(i int) []string {
				return []string{all[i].At, all[i].LocalTime, all[i].Occurrence, all[i].note()}
			})
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many to look ahead")
	cmd.Flags().BoolVar(&leftOut, "left-out", false, "with -o json or ndjson: also what a calendar or a gap leaves out")
	return cmd
}

// comingOccurrences are the answer of GET /v1/triggers/{id}/occurrences.
type comingOccurrences struct {
	Items   []upcoming `json:"items"`
	LeftOut []upcoming `json:"left_out"`
}

// all puts what is left out in its place. What fires stays in the order in which it fires: a snoozed occurrence fires
// later than its time says.
func (c *comingOccurrences) all() (all []upcoming) {
	left := slices.Clone(c.LeftOut)
	for i := range left {
		left[i].LeftOut = true
	}
	for _, o := range c.Items {
		n, _ := slices.BinarySearchFunc(left, o.At, func(o upcoming, at string) int { return cmp.Compare(o.At, at) })
		all, left = append(append(all, left[:n]...), o), left[n:]
	}
	return append(all, left...)
}

// note is for a row of a table.
func (u *upcoming) note() string {
	if u.LeftOut {
		return "does not fire: " + strings.TrimPrefix(u.Note, "left out: ")
	}
	return u.Note
}
