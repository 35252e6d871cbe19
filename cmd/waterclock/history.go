package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
)

func newHistory(a *app) *cobra.Command {
	return parent("history", "Create, migrate, rebuild and switch the tables of the history", newHistoryRebuild(a),
		newHistorySwitch(a), newHistoryMigrate(a))
}

type rebuildFlags struct {
	keyspace, dir string
	noCompare     bool
}

func newHistoryRebuild(a *app) *cobra.Command {
	f := &rebuildFlags{}
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Replay the event log into fresh tables, and compare them with those in use",
		Long: `Replay the event log into fresh tables, and compare them with those in use.
With cassandra.hosts they are another keyspace (--keyspace); without, a
directory (--dir). What is in use is only read. To switch to the keyspace, set
cassandra.keyspace, and run "waterclock history switch" before the projectors
start again. What notifications said is read from the due topics, as far as they
reach. A rebuild that was interrupted may be run again into the same tables. The
exit code is 1 if they differ.`,
		Example: "  waterclock history rebuild --keyspace waterclock_2 --config waterclock.yaml\n" +
			"  waterclock history rebuild --dir ./history-2",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.rebuild(cmd.Context(), c, f)
		},
	}
	cmd.Flags().StringVar(&f.keyspace, "keyspace", "", "fresh `keyspace` (default cassandra.keyspace with _rebuild)")
	cmd.Flags().StringVar(&f.dir, "dir", "",
		"fresh `directory`, where there is no Cassandra (default history-rebuild in the data directory)")
	cmd.Flags().BoolVar(&f.noCompare, "no-compare", false, "replay only")
	a.flags.Bind(cmd.Flags(), "cassandra.hosts", "cassandra.keyspace")
	return cmd
}

// rebuild replays the events into fresh tables, compares them with the tables in use, and
// reports.
func (a *app) rebuild(ctx context.Context, c *config.Config, f *rebuildFlags) error {
	opts, err := kafkaconn.Options(c, "waterclock-rebuild", nil)
	if err != nil {
		return err
	}
	cl, err := a.kafka(ctx, c) // fails with a better message than the replay, and before any table is created
	if err != nil {
		return err
	}
	cl.Close()
	old, fresh, err := a.openTables(ctx, c, f)
	if err != nil {
		return err
	}
	defer fresh.close()
	defer old.close()
	b := a.progress("replaying", 1)
	defer func() { b.end() }()
	o := sinks.RebuildOptions{
		Kafka: opts, Topic: c.Topic("events"), Into: fresh.writer, New: fresh.scanner, Old: old.scanner,
		Progress: func(p sinks.RebuildProgress) {
			if b.total != p.Records {
				b = a.progress("replaying", p.Records)
			}
			b.done(p.Done)
		},
	}
	report, err := sinks.Rebuild(ctx, o)
	if err != nil {
		return err
	}
	o.Topic, o.Into, o.Letters = c.Topic("dead-letter"), fresh.letters, true
	// Runs second: the events, which are in the tables by now, say what became of the letters.
	letters, err := sinks.Rebuild(ctx, o)
	if err != nil {
		return err
	}
	report.Tables = append(report.Tables, letters.Tables...)
	said, err := sinks.RebuildContents(ctx, sinks.ContentRebuildOptions{
		Kafka: opts, Topics: node.DueTopics(c), Into: fresh.contents, Progress: o.Progress,
	})
	if err != nil {
		return err
	}
	b.end()
	return a.printRebuild(report, said, fresh.name, old.scanner != nil)
}

func (a *app) printRebuild(r *sinks.Report, said *sinks.ContentReport, into string, compared bool) error {
	answer := map[string]any{
		"into": into, "compared": compared, "events": r.Events, "not_events": r.Poison,
		"seconds": r.Elapsed.Seconds(), "same": r.Same(), "tables": r.Tables, "contents": said.Events,
		"ends": r.Ends,
	}
	if !said.Since.IsZero() {
		answer["contents_since"] = said.Since.UTC().Format(time.RFC3339)
	}
	if !r.Since.IsZero() {
		answer["since"] = r.Since.UTC().Format(time.RFC3339)
	}
	if a.out.format != "table" {
		if err := a.out.json(answer); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(a.out.w, "%s%sinto %s\n", r.String(), said.String(), into); err != nil {
		return err
	}
	if !r.Same() {
		return failf("the fresh tables differ from those in use: those in use lost rows, or have rows that the log " +
			"no longer has")
	}
	return nil
}

// tables is one side of a rebuild. The zero value has no tables.
type tables struct {
	name     string
	writer   sinks.Writer
	letters  sinks.Writer
	contents sinks.Notifications
	scanner  sinks.Scanner
	closer   func() error
}

func (t *tables) close() {
	if t.closer != nil {
		_ = t.closer() // everything that counts is durable already
	}
}

func tablesOf[T interface {
	sinks.History
	sinks.Scanner
}](name string, h T) tables {
	return tables{name, h, sinks.LettersOf(h), h, h, h.Close}
}

// openTables opens the tables in use for reading, and fresh tables.
func (a *app) openTables(ctx context.Context, c *config.Config, f *rebuildFlags) (old, fresh tables, err error) {
	if len(c.Cassandra.Hosts) > 0 {
		return a.openKeyspaces(ctx, c, f)
	}
	if f.keyspace != "" {
		return old, fresh,
			usagef("--keyspace needs cassandra.hosts; without Cassandra the tables are a directory, --dir")
	}
	live, dir := filepath.Join(c.DataDir, "history"), or(f.dir, filepath.Join(c.DataDir, "history-rebuild"))
	if sameDir(live, dir) {
		return old, fresh, usagef("%s is in use; name a fresh directory with --dir", dir)
	}
	switch _, err := os.Stat(live); {
	case f.noCompare:
	case err != nil:
		a.note("there is no history at %s, so there is nothing to compare with; --data-dir names another data "+
			"directory",
			live)
	default:
		h, err := openUnswept(c, live)
		if err != nil {
			return old, fresh, failf("cannot open %s to compare with: %v. If waterclock runs on it, add --no-compare",
				live, err)
		}
		old = tablesOf(live, h)
	}
	h, err := openUnswept(c, dir)
	if err != nil {
		old.close()
		return tables{}, fresh, fmt.Errorf("open %s: %w", dir, err)
	}
	return old, tablesOf(dir, h), nil
}

// openUnswept opens tables without the sweeper, so that nothing is removed during the comparison.
func openUnswept(c *config.Config, dir string) (*embedded.Store, error) {
	o := node.EmbeddedOptions(c, dir)
	o.SweepEvery = -1
	return embedded.Open(o)
}

func sameDir(x, y string) bool {
	a, err1 := filepath.Abs(x)
	b, err2 := filepath.Abs(y)
	return err1 == nil && err2 == nil && a == b
}
