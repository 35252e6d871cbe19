package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/analytics"
	"github.com/waterclock/waterclock/analytics/slo"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/wholefile"
)

func newReport(a *app) *cobra.Command {
	return parent("report", "Reports from an export of the event log", newReportSLO(a))
}

type sloFlags struct {
	dir, objective, window, until, html, png string
}

// maxWindow bounds the time range of a report.
const maxWindow = 400 * 24 * time.Hour

func newReportSLO(a *app) *cobra.Command {
	f := &sloFlags{}
	cmd := &cobra.Command{
		Use:   "slo",
		Short: "Say whether triggers fired on time: percentiles, error budget, burn rate",
		Long: `Say from an export (events export) how late triggers fired: exact percentiles by
channel, priority, tenant and hour, the error budget, and how fast it burns.

Counted are scheduled occurrences that were due in the window; not counted are
snoozed ones, those of run, retries, and later steps of escalations. Expired
occurrences spend the budget; misfired and dead-lettered ones are counted beside it.`,
		Example: "  waterclock report slo --dir ./lake --objective 99.9:1s --window 28d",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if f.dir = or(f.dir, c.Export.Dir); f.dir == "" {
				return usagef("name the export's directory with --dir DIRECTORY")
			}
			o, err := f.options(time.Now())
			if err != nil {
				return err
			}
			return a.slo(cmd.Context(), f, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.dir, "dir", "", "`directory` of the export (default: export.dir)")
	fs.StringVar(&f.objective, "objective", "99.9:1s", "so many `percent:late`: at least 99.9 % at most 1 s late")
	fs.StringVar(&f.window, "window", "28d", "length of the window, a `duration`")
	fs.StringVar(&f.until, "until", "", "end of the window, a `time` such as 2026-11-20T09:00:00Z (default: now)")
	fs.StringVar(&f.html, "html", "", "write a page with a picture, too, into this `file`")
	fs.StringVar(&f.png, "png", "", "write a picture of lateness over time, too, into this `file`")
	return cmd
}

// options converts the flags.
func (f *sloFlags) options(now time.Time) (o slo.Options, err error) {
	if o.Objective, err = slo.ParseObjective(f.objective, config.ParseDuration); err != nil {
		return o, usagef("--objective: %v", err)
	}
	window, err := config.ParseDuration(f.window)
	if err != nil || window < time.Hour || window > maxWindow {
		return o, usagef("--window %s: write a duration from 1h to 400d, such as 28d", f.window)
	}
	o.Until = now.Truncate(time.Millisecond)
	if f.until != "" {
		if o.Until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return o, usagef("--until %s: write a time with Z or an offset, such as 2026-11-20T09:00:00Z", f.until)
		}
	}
	o.From = o.Until.Add(-window)
	return o, nil
}

func (a *app) slo(ctx context.Context, f *sloFlags, o slo.Options) error {
	from, err := analytics.Open(f.dir)
	if err != nil {
		return exportFailure(nil, err)
	}
	if from == nil {
		return &failure{Exit: exitNotFound, Msg: fmt.Sprintf(
			"%s has no export yet: waterclock events export --dir %s", f.dir, f.dir)}
	}
	r, err := slo.Read(ctx, from, o)
	if err != nil {
		return exportFailure(nil, err)
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.html, r.HTML}, {f.png, r.PNG}} {
		if file.name == "" {
			continue
		}
		if err := wholefile.Write(file.name, 0o644, file.write); err != nil {
			return failf("%v", err)
		}
		a.note("wrote %s", file.name)
	}
	if a.out.format != "table" {
		err = a.out.json(r)
	} else {
		_, err = fmt.Fprintln(a.out.w, sloText(a.out, &r))
	}
	if err == nil && r.Budget.Verdict == slo.NoData {
		err = &failure{
			Exit: exitNotFound,
			Msg:  "nothing was due in the window: widen --window, or export again if newest is too old",
		}
	}
	return err
}

// sloText formats the report for people. It shows only the worst hours.
func sloText(out *output, r *slo.Report) string {
	verdict := strings.ReplaceAll(r.Budget.Verdict, "_", " ")
	var b strings.Builder
	fmt.Fprintf(&b, "objective  %s, due from %s until %s: %s\n", r.Objective, r.From, r.Until, verdict)
	fmt.Fprintf(&b, "on time    %s of %s\n", share(r.Total.OnTime), count(r.Total.Fires+r.Total.Expired, "occurrence"))
	fmt.Fprintf(&b, "budget     %s\n", budgetText(&r.Budget))
	burn := make([]string, len(r.Burn))
	for i, w := range r.Burn {
		burn[i] = w.Window + " " + strconv.FormatFloat(w.Rate, 'f', 2, 64)
	}
	fmt.Fprintf(&b, "burn rate  %s\n", strings.Join(burn, ", "))
	fmt.Fprintf(&b, "newest     %s\n", or(r.Newest, "no event"))
	if len(r.NoTail) > 0 {
		fmt.Fprintf(&b, "warning    tail/ lacks partitions %v, so their newest events do not count: export again\n",
			r.NoTail)
	}
	if r.Begins != "" {
		fmt.Fprintf(&b, "warning    the export begins at %s: what was before had expired, and does not count\n",
			r.Begins)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(&b, "warning    offsets %d to %d of partition %d had expired before they were exported, and do "+
			"not count\n", g.From, g.Last(), g.Partition)
	}
	if len(r.Behind) > 0 {
		fmt.Fprintf(&b, "warning    %s\n", behindText(r.Behind))
	}
	b.WriteString("\n")
	t := out.table()
	header := table.Row{"", "fires", "late", "expired", "misfired", "dead-lettered", "on time"}
	for _, p := range r.Total.Percentiles {
		header = append(header, "p"+strconv.FormatFloat(p.Percent, 'f', -1, 64))
	}
	t.AppendHeader(append(header, "worst"))
	line := func(kind string, l *slo.Line) {
		row := table.Row{
			clean(strings.TrimSpace(kind + " " + l.Name)), l.Fires, l.Late, l.Expired, l.Misfired, l.DeadLettered,
			share(l.OnTime),
		}
		for _, p := range l.Percentiles {
			row = append(row, slo.MS(p.MS))
		}
		t.AppendRow(append(row, slo.MS(l.MaxMS)))
	}
	line("", &r.Total)
	for _, g := range []struct {
		kind  string
		lines []slo.Line
	}{
		{"channel", r.Channels},
		{"priority", r.Priority},
		{"tenant", r.Tenants},
		{"hour", slo.Worst(r.Hours, worstHours)},
	} {
		for i := range g.lines {
			line(g.kind, &g.lines[i])
		}
	}
	b.WriteString(trimRight(t.Render()))
	if n := len(r.Hours); n > worstHours {
		fmt.Fprintf(&b, "\n\nthe %d worst of %s; all: -o json", worstHours, count(int64(n), "hour"))
	}
	return b.String()
}

// budgetText says what is left, or how much was spent that was not there.
func budgetText(b *slo.Budget) string {
	if b.Overspent() {
		return fmt.Sprintf("overspent: %d late or expired, %s allowed", b.Spent, slo.Allowed(b.Allowed))
	}
	return fmt.Sprintf("%d of %s spent, %s left", b.Spent, slo.Allowed(b.Allowed), share(b.LeftPercent))
}

// behindText names the partitions, and where the first of them ends.
func behindText(all []slo.Behind) string {
	partitions, oldest := make([]int32, len(all)), all[0].Newest
	for i := range all {
		partitions[i], oldest = all[i].Partition, min(oldest, all[i].Newest)
	}
	return fmt.Sprintf("partitions %v have no event since %s or later, and the others went on: export again; "+
		"if it stays, check the engine", partitions, oldest)
}

// worstHours is the number of hours in the table. JSON and the HTML page have all hours.
const worstHours = 5

// share is a percentage without zeros at its end.
func share(percent float64) string {
	return strings.TrimRight(strings.TrimRight(slo.Share(percent), "0"), ".") + " %"
}
