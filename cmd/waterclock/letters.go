package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/gateway"
)

func newDeadLetters(a *app) *cobra.Command {
	return parent("dead-letters", "List dead letters and redrive them", newLettersList(a),
		newLettersShow(a), newLettersRedrive(a, "redrive [KEY…]"))
}

// letterFlags are the filters of dead letters.
type letterFlags struct {
	tenant, channel, code, endpoint, from, to string
}

// letterFilters are the names of those flags, in the order of the help page.
var letterFilters = []string{"tenant", "channel", "code", "endpoint", "from", "to"}

func (f *letterFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.tenant, "tenant", "", "only of this tenant; an operator sees all without it")
	fs.StringVar(&f.channel, "channel", "", "only of this channel")
	fs.StringVar(&f.code, "code", "", "only with this code, such as receipt_timeout")
	fs.StringVar(&f.endpoint, "endpoint", "", "only to this `origin`, such as https://example.com")
	fs.StringVar(&f.from, "from", "", "only what failed at or after this `time`")
	fs.StringVar(&f.to, "to", "", "only what failed before this `time`")
}

// values returns the filters that were given. It refuses an empty value, which would select
// everything.
func (f *letterFlags) values(fs *pflag.FlagSet) (map[string]string, error) {
	given := map[string]string{}
	for i, text := range []string{f.tenant, f.channel, f.code, f.endpoint, f.from, f.to} {
		name := letterFilters[i]
		if err := refuseEmpty(fs, name); err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		given[name] = text
	}
	return given, checkRange(f.from, f.to)
}

func newLettersList(a *app) *cobra.Command {
	f := &letterFlags{}
	var status, by string
	limit := 1000
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print dead letters, the newest first, or count them with --group-by",
		Long: `Print dead letters: occurrences that could not be delivered. Within a tenant the newest
come first. --group-by counts them instead. It asks the API at --url, which needs a
history.`,
		Example: "  waterclock dead-letters list --code receipt_timeout\n" +
			"  waterclock dead-letters list --group-by endpoint",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given, err := f.values(cmd.Flags())
			if err != nil {
				return err
			}
			given["status"] = status
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			if by != "" {
				q := url.Values{"group_by": {by}}
				for name, text := range given {
					q.Set(name, text)
				}
				return a.countGroups(cmd.Context(), from, "/v1/dead-letters", q, by, "dead letters")
			}
			all, err := fetchLetters(cmd.Context(), from, given, limit)
			if err != nil {
				return err
			}
			return a.printLetters(all)
		},
	}
	f.bind(cmd.Flags())
	cmd.Flags().StringVar(&status, "status", "open", "open, redriven, resolved or all")
	cmd.Flags().StringVar(&by, "group-by", "", "count by tenant, code or endpoint")
	cmd.Flags().IntVarP(&limit, "limit", "n", limit, "at most this many; 0 for all")
	return cmd
}

func newLettersShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show KEY",
		Short:   "Print all about the dead letters of a trigger",
		Example: "  waterclock dead-letters show hold-8c4",
		Args:    oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			all, err := fetchLetters(cmd.Context(), from, map[string]string{"trigger_id": args[0], "status": "all"}, 0)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return &failure{Exit: exitNotFound, Msg: fmt.Sprintf("trigger %s has no dead letter", args[0])}
			}
			if a.out.format != "table" {
				return a.printLetters(all)
			}
			for i := range all {
				l := &all[i]
				rows := [][2]string{
					{"trigger", l.TriggerID},
					{"ce_id", l.CeID},
					{"status", l.Status},
					{"code", l.Code},
					{"detail", l.Detail},
					{"attempts", strconv.Itoa(l.Attempts)},
					{"channel", l.Channel},
					{"endpoint", l.Endpoint},
					{"failed", l.FailedAt},
					{"scheduled", l.ScheduledAt},
					{"expires", l.ExpiresAt},
					{"ended", l.EndedAt},
					{"record", fmt.Sprintf("dead-letter/%d/%d", l.Partition, l.Offset)},
				}
				if err := a.out.record(l, rows); err != nil {
					return err
				}
				if i < len(all)-1 {
					fmt.Fprintln(a.out.w)
				}
			}
			return nil
		},
	}
}

type redriveFlags struct {
	letterFlags
	ceID, cursor, note       string
	all, dry, includeExpired bool
	rate                     float64
}

// newRedrive is the same verb as dead-letters redrive, listed with the other verbs that take
// keys.
func newRedrive(a *app) *cobra.Command { return newLettersRedrive(a, "redrive [KEY…]") }

func newLettersRedrive(a *app, use string) *cobra.Command {
	f := &redriveFlags{}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Redrive dead letters: of triggers, of a filter, or --all",
		Long: `Try dead letters again, under the same ce_id, as the next attempt. Name triggers, or
filters, or --all. Each dead letter is redriven once: one that was redriven before, or is
under way, counts as duplicate. So an interrupted run can simply be repeated. It uses the
API at --url. The exit code is 1 if some were refused.`,
		Example: "  waterclock dead-letters redrive hold-8c4\n" +
			"  waterclock dead-letters redrive --code receipt_timeout --rate 500\n" +
			"  waterclock dead-letters redrive --all --dry-run",
		RunE: func(cmd *cobra.Command, keys []string) error {
			bodies, err := f.bodies(cmd.Flags(), keys)
			if err != nil {
				return err
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			return a.redrive(cmd.Context(), from, bodies)
		},
	}
	fs := cmd.Flags()
	f.bind(fs)
	fs.BoolVar(&f.all, "all", false, "all dead letters that are open")
	fs.StringVar(&f.ceID, "ce-id", "", "of one KEY: only this occurrence")
	fs.Float64Var(&f.rate, "rate", 0, "dead letters per second (default 100)")
	fs.BoolVar(&f.dry, "dry-run", false, "only count")
	fs.BoolVar(&f.includeExpired, "include-expired", false, "include dead letters past their expires_at")
	fs.StringVar(&f.note, "note", "", "`reason`, which the events have as their detail")
	fs.StringVar(&f.cursor, "cursor", "", "continue at the cursor of an earlier run with the same filters")
	return cmd
}

// bodies returns the requests to send, in order.
func (f *redriveFlags) bodies(fs *pflag.FlagSet, keys []string) (list []map[string]any, err error) {
	given, err := f.values(fs)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	for name, text := range given {
		body[name] = text
	}
	switch {
	case len(keys) > 0 && (f.all || f.cursor != "" || len(given) > 1 || len(given) == 1 && f.tenant == ""):
		return nil, usagef("give keys, filters or --all, and only one of them")
	case len(keys) != 1 && f.ceID != "":
		return nil, usagef("--ce-id goes with one KEY")
	case len(keys) == 0 && len(given) == 0 && !f.all:
		return nil, usagef("name what to redrive: a KEY, a filter such as --code receipt_timeout, or --all")
	case fs.Changed("rate") && f.rate <= 0:
		return nil, usagef("--rate %g: write a number above 0", f.rate)
	}
	for name, set := range map[string]bool{"all": f.all, "dry_run": f.dry, "include_expired": f.includeExpired} {
		if set {
			body[name] = true
		}
	}
	if f.rate > 0 {
		body["rate"] = f.rate
	}
	put(body, "cursor", f.cursor)
	put(body, "note", f.note)
	if len(keys) == 0 {
		return []map[string]any{body}, nil
	}
	for _, key := range keys {
		one := map[string]any{"trigger_id": key}
		for name, v := range body {
			one[name] = v
		}
		if f.ceID != "" {
			one["ce_id"] = f.ceID
		}
		list = append(list, one)
	}
	return list, nil
}

// fetchLetters reads dead letters until it has limit of them. A limit of 0 means all.
func fetchLetters(ctx context.Context, from *api, given map[string]string, limit int) ([]gateway.DeadLetter, error) {
	q := url.Values{}
	for name, text := range given {
		q.Set(name, text)
	}
	return fetchPages[gateway.DeadLetter](ctx, from, "/v1/dead-letters", q, limit)
}

func (a *app) printLetters(all []gateway.DeadLetter) error {
	items := anyOf(all)
	header := []string{"failed", "tenant", "trigger", "channel", "code", "attempts", "status", "detail"}
	return a.out.list(items, header, func(i int) []string {
		l := &all[i]
		return []string{
			l.FailedAt, l.Tenant, l.TriggerID, l.Channel, l.Code, strconv.Itoa(l.Attempts), l.Status,
			clip(l.Detail, 60),
		}
	})
}

// clip shortens a text for a table.
func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// countGroups adds up the counts of all pages of a list. Refused commands are counted as dead letters are.
func (a *app) countGroups(ctx context.Context, from *api, path string, q url.Values, by, what string) error {
	var order []string
	sums := map[string]*gateway.Group{}
	for {
		var page gateway.Groups
		if err := from.get(ctx, path+"?"+q.Encode(), &page); err != nil {
			return err
		}
		for _, g := range page.Groups {
			sum := sums[g.Value]
			if sum == nil {
				sums[g.Value], order = &g, append(order, g.Value)
				continue
			}
			if g.Newest > sum.Newest {
				sum.Sample = g.Sample
			}
			sum.Count += g.Count
			sum.Oldest, sum.Newest = min(sum.Oldest, g.Oldest), max(sum.Newest, g.Newest)
		}
		if page.Other > 0 {
			a.note("%d %s with further values are not counted: add filters", page.Other, what)
		}
		if page.NextCursor == "" {
			break
		}
		q.Set("cursor", page.NextCursor)
	}
	items := make([]any, len(order))
	for i, value := range order {
		items[i] = sums[value]
	}
	return a.out.list(items, []string{by, "count", "oldest", "newest", "for example", "detail"}, func(i int) []string {
		g := sums[order[i]]
		return []string{
			g.Value, strconv.FormatInt(g.Count, 10), g.Oldest, g.Newest, g.Sample.TriggerID, clip(g.Sample.Detail, 60),
		}
	})
}

// redrive sends the requests one after the other and prints the progress of each. It continues
// after a refusal, and joins the refusals into one error.
func (a *app) redrive(ctx context.Context, from *api, bodies []map[string]any) error {
	refused := int64(0)
	var total gateway.RedriveProgress
	var failed []error
	for _, body := range bodies {
		last, err := a.redriveOne(ctx, from, body)
		if err != nil && len(bodies) == 1 || ctx.Err() != nil {
			return err
		}
		if err != nil {
			failed = append(failed, err)
		}
		refused += last.Refused
		total.Visited, total.Matched = total.Visited+last.Visited, total.Matched+last.Matched
		total.Redriven, total.Duplicate = total.Redriven+last.Redriven, total.Duplicate+last.Duplicate
		total.Expired, total.Refused = total.Expired+last.Expired, total.Refused+last.Refused
		total.Pending, total.DryRun, total.Done = total.Pending+last.Pending, last.DryRun, true
	}
	n := func(i int64) string { return strconv.FormatInt(i, 10) }
	err := a.out.record(total, [][2]string{
		{"matched", n(total.Matched)},
		{"redriven", n(total.Redriven)},
		{"duplicate", n(total.Duplicate)},
		{"expired", n(total.Expired)},
		{"refused", n(total.Refused)},
		{"pending", n(total.Pending)},
	})
	if err == nil && refused > 0 {
		err = failf("%d dead letters were refused; they stay open", refused)
	}
	return errors.Join(append(failed, err)...)
}

// redriveOne reads the lines of one answer and returns the last.
func (a *app) redriveOne(ctx context.Context, from *api, body map[string]any) (
	last gateway.RedriveProgress, err error,
) {
	answer, err := from.open(ctx, http.MethodPost, "/v1/dead-letters:redrive", nil, body)
	if err != nil {
		return last, err
	}
	defer answer.Close()
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 1<<20)
	for began := time.Now(); lines.Scan(); {
		var line struct {
			gateway.RedriveProgress
			Code      string `json:"code"`
			Detail    string `json:"detail"`
			TriggerID string `json:"trigger_id"`
			ID        string `json:"id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return last, fmt.Errorf("the answer of %s is not from a Waterclock API: %w", from.base, err)
		}
		if line.Code != "" {
			a.note("%s", clean(fmt.Sprintf("%s: %s: %s", or(line.ID, or(line.TriggerID, "the redrive stopped")),
				line.Code, line.Detail)))
			continue
		}
		if last = line.RedriveProgress; last.Done {
			return last, nil
		}
		a.note("%s: %d redriven, %d duplicate, %d refused of %d; go on with --cursor %s",
			time.Since(began).Round(time.Second), last.Redriven, last.Duplicate, last.Refused, last.Matched,
			last.Cursor)
	}
	if err := lines.Err(); err != nil {
		return last, fmt.Errorf("redrive at %s: %w", from.base, err)
	}
	return last, failf("the redrive stopped after %d, before it was complete; repeat it: a dead letter is redriven "+
		"only once",
		last.Redriven)
}
