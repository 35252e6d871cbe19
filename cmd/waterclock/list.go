package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pageSize is how many triggers one request asks for.
const pageSize = 500

type listFlags struct {
	state, user, channel, from, to, prefix, sort string
	tags                                         []string
	limit                                        int
	fresh                                        bool
}

func newList(a *app) *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List triggers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.list(cmd.Context(), newAPI(c), f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.state, "state", "",
		"only in this state: pending, paused, in_flight, fired, failed, cancelled, expired")
	fs.StringVar(&f.user, "user", "", "only of this user")
	fs.StringVar(&f.channel, "channel", "", "only of this channel")
	fs.StringArrayVar(&f.tags, "tag", nil, "only with this label, `name=value`; may be repeated")
	fs.StringVar(&f.from, "from", "", "only due at or after this `time`")
	fs.StringVar(&f.to, "to", "", "only due before this `time`")
	fs.StringVar(&f.prefix, "key-prefix", "", "only ids that begin with this")
	fs.StringVar(&f.sort, "sort", "", "`next_fire`: by next fire. Without it by id, or by due time with --user")
	fs.BoolVar(&f.fresh, "fresh", true,
		"wait for what was acknowledged before; --fresh=false is sooner, and names partitions that do not answer")
	fs.IntVarP(&f.limit, "limit", "n", 1000, "at most this many; 0 for all")
	return cmd
}

// check refuses an empty filter, which would list everything. It also explains a wrong instant in
// terms of the flags.
func (f *listFlags) check(flags *pflag.FlagSet) error {
	if f.sort != "" && f.sort != "next_fire" {
		return usagef("--sort %q: write next_fire, or leave it out to sort by id", f.sort)
	}
	for _, name := range []string{"state", "user", "channel", "from", "to", "key-prefix", "sort"} {
		if err := refuseEmpty(flags, name); err != nil {
			return err
		}
	}
	for _, tag := range f.tags {
		if name, _, ok := strings.Cut(strings.Replace(tag, ":", "=", 1), "="); !ok || name == "" {
			return usagef("--tag %q: write name=value", tag)
		}
	}
	return checkRange(f.from, f.to)
}

func (a *app) list(ctx context.Context, from *api, f *listFlags) error {
	var items []any
	cursor := ""
	for f.limit <= 0 || len(items) < f.limit {
		var page struct {
			Items      []map[string]any `json:"items"`
			NextCursor string           `json:"next_cursor"`
			Silent     []int32          `json:"silent_partitions"`
		}
		if err := from.get(ctx, "/v1/triggers?"+f.query(cursor, len(items)).Encode(), &page); err != nil {
			return err
		}
		for _, t := range page.Items {
			items = append(items, t)
		}
		if len(page.Silent) > 0 {
			a.note("partitions %v did not answer: their triggers are missing", page.Silent)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if f.limit > 0 && len(items) >= f.limit {
		items = items[:f.limit]
		if cursor != "" {
			a.note("there are more than %d: see them with --limit 0", f.limit)
		}
	}
	return a.out.list(items, []string{"trigger", "state", "next", "channel", "user", "recurrence"},
		func(i int) []string {
			t := items[i].(map[string]any)
			next := cell(t["next_fire_at"])
			if next == "" && !over(cell(t["state"])) {
				next = cell(t["fire_at"])
			}
			return []string{
				cell(t["trigger_id"]), cell(t["state"]), next, cell(t["channel"]), cell(t["user_id"]),
				cell(t["recurrence"]),
			}
		})
}

// query returns the query of the next page. have is the number of items read so far.
func (f *listFlags) query(cursor string, have int) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"state": f.state, "user_id": f.user, "channel": f.channel,
		"from": f.from, "to": f.to, "cursor": cursor, "key_prefix": f.prefix, "sort": f.sort,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, tag := range f.tags {
		if name, value, ok := strings.Cut(tag, "="); ok && !strings.Contains(name, ":") {
			tag = name + ":" + value // the spelling that the other verbs use
		}
		q.Add("tag", tag)
	}
	if !f.fresh {
		q.Set("fresh", "false")
	}
	limit := pageSize
	if f.limit > 0 {
		limit = min(limit, f.limit-have)
	}
	q.Set("limit", strconv.Itoa(limit))
	return q
}
