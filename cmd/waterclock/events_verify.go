package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/internal/config"
)

type verifyFlags struct {
	from, acks, faults string
	grace              time.Duration
	memory             int64
	limit              int
	timelines          bool
}

func newEventsVerify(a *app) *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check what the engine did against a reference model; exit code 1 if they differ",
		Long: `Replay all commands and receipts through a reference model that shares no code
with the engine. Compare the engine's due events, events, refusals and state with
it. Print every violation with a timeline of its trigger. docs/checker.md explains
C1 to C13.

With --from it checks a recording of events record. Without, it first records the
topics as they are now to a temporary directory, which needs room for all of them.
What has expired or was compacted cannot be checked, and is counted.
Set misfire_after, catch_up.max and dedup.horizon as the engine has them.`,
		Example: "  waterclock events verify --from ./history\n" +
			"  waterclock events verify --brokers kafka:9092 -o ndjson --jq 'select(.class)|.sentence'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmpty(cmd.Flags(), "from"); err != nil {
				return err
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.verify(cmd, c, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "check this recording (`directory`), not the cluster")
	fs.StringVar(&f.acks, "acks", "",
		"`file` of acknowledged commands: lines of {partition, offset, key}")
	fs.StringVar(&f.faults, "faults", "",
		"`file` of injected faults: lines of {name, from, to}; lateness during faults is reported separately")
	fs.DurationVar(&f.grace, "grace", time.Minute,
		"how late a firing may be at the end of the history before it counts as lost")
	fs.Int64Var(&f.memory, "memory", 512, "maximum MiB for the index of records; a longer history is read several "+
		"times")
	fs.IntVar(&f.limit, "limit", 100, "print this many violations; all are counted")
	fs.BoolVar(&f.timelines, "timelines", true, "print what is known about each trigger that is named")
	return cmd
}

func (a *app) verify(cmd *cobra.Command, c *config.Config, f *verifyFlags) (err error) {
	dir := f.from
	if dir == "" {
		if dir, err = os.MkdirTemp("", "waterclock-verify-"); err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		a.note("recording all topics to %s first", dir)
		if _, _, err := a.recordTo(cmd, c, &recordFlags{dir: dir}); err != nil {
			return err
		}
	}
	h, err := check.OpenDump(dir)
	if err != nil {
		return &failure{Exit: exitUsage, Err: err}
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	o, err := f.options(c)
	if err != nil {
		return err
	}
	o.Stop = cmd.Context().Err
	var shown *bar
	o.Progress = func(done, total int64) {
		if shown == nil {
			shown = a.progress("verifying", total)
		}
		shown.done(done)
	}
	r, err := check.Verify(h, o)
	if shown != nil {
		shown.end()
	}
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return a.verdict(r, f)
}

func (f *verifyFlags) options(c *config.Config) (check.Options, error) {
	o := check.Options{
		Grace: f.grace, Horizon: c.Dedup.Horizon, MisfireAfter: c.MisfireAfter, CatchUp: c.CatchUp.Max,
		Memory:  f.memory << 20,
		Workers: runtime.GOMAXPROCS(0), Limit: f.limit,
	}
	var err error
	if o.Zones, err = check.LoadZones(calendar.EmbeddedZip()); err != nil {
		return o, err
	}
	if f.acks != "" {
		if o.Acks, err = readLines[check.Ack]("acks", f.acks, `{"partition":0,"offset":17,"key":"k"}`); err != nil {
			return o, err
		}
	}
	if f.faults != "" {
		o.Faults, err = readLines[check.Fault]("faults", f.faults,
			`{"name":"kill -9","from":1774008000000,"to":1774008009000}`)
	}
	return o, err
}

// readLines reads a file that has one JSON object per line. example is shown in errors.
func readLines[T any](flag, name, example string) (out []T, err error) {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, usagef("--%s: %v", flag, err)
	}
	defer file.Close()
	sc := bufio.NewScanner(file)
	sc.Buffer(nil, 4<<20) // a payload of 512 KiB in base64, and its key
	for n := 1; sc.Scan(); n++ {
		var one T
		if err := json.Unmarshal(sc.Bytes(), &one); err != nil {
			return nil, usagef("--%s %s, line %d: %v; write %s", flag, name, n, err, example)
		}
		out = append(out, one)
	}
	return out, sc.Err()
}

// verdict prints the report. With ndjson it prints one line per violation and then the summary.
func (a *app) verdict(r *check.Report, f *verifyFlags) error {
	var err error
	switch a.out.format {
	case "table":
		a.printReport(r, f)
	case "ndjson":
		for i := range r.Violations {
			if err = a.out.json(r.Violations[i]); err != nil {
				return err
			}
		}
		summary := *r
		summary.Violations = nil
		err = a.out.json(summary)
	default:
		err = a.out.json(r)
	}
	if err == nil && !r.OK() {
		return failf("the history breaks the contract: %s", count(r.Total(), "violation"))
	}
	return err
}

func (a *app) printReport(r *check.Report, f *verifyFlags) {
	w := a.out.w
	for i := range r.Violations {
		v := &r.Violations[i]
		fmt.Fprintln(w, clean(v.String()))
		for _, line := range v.Timeline {
			if f.timelines {
				fmt.Fprintln(w, "    "+clean(line))
			}
		}
	}
	if n := r.Total() - int64(len(r.Violations)); n > 0 {
		fmt.Fprintf(w, "and %s more (--limit)\n", count(n, "violation"))
	}
	fmt.Fprintf(w, "%s, %s (%d live), %s, %s\n", count(r.Records, "record"), count(r.Triggers, "trigger"), r.Live,
		count(r.Fired, "due event"),
		count(r.Total(), "violation"))
	for _, k := range check.Classes {
		if n := r.Counts[k.Class]; n > 0 {
			fmt.Fprintf(w, "  %-4s %-28s %d\n", k.Class, k.Means, n)
		}
	}
	printLateness(w, "lateness of due events", r.Lateness)
	if r.InFaults.Count > 0 {
		printLateness(w, "  in faults", r.InFaults)
		printLateness(w, "  outside", r.NoFaults)
	}
	printCounts(w, "not judged: %s: %d\n", r.Skipped)
	printCounts(w, "taken on trust: refused as %s: %d\n", r.Trusted)
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note:", clean(n))
	}
}

func printLateness(w io.Writer, what string, l check.Lateness) {
	fmt.Fprintf(w, "%s: p50 %d ms, p99 %d ms, max %d ms\n", what, l.P50, l.P99, l.Max)
}

// printCounts prints a map sorted by name.
func printCounts(w io.Writer, format string, counts map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, format, clean(name), counts[name])
	}
}
