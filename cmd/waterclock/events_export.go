package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/analytics"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

type exportFlags struct {
	dir, acceptGap string
	follow         bool
}

func newEventsExport(a *app) *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the event log to Parquet files, for DuckDB, Polars and PyArrow",
		Long: `Write all committed events to Parquet files, each once. Run it again, and it
goes on where it ended; any number of exports may write the same directory.
With --follow it goes on until you interrupt it.

Payloads are not exported. User ids and the values of tags are keyed hashes
(export.user_hash_key), or are left out without a key. Exit code 5 says that
events expired before they were exported.`,
		Example: "  waterclock events export --dir ./lake\n  waterclock events views --dir ./lake",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.export(cmd.Context(), c, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.dir, "dir", "", "`directory` of the files, created if it does not exist (default: export.dir)")
	fs.BoolVar(&f.follow, "follow", false, "go on until interrupted")
	fs.StringVar(&f.acceptGap, "accept-gap", "",
		"go on although events expired before they were exported: `PARTITION:OFFSET`, as the refusal says")
	return cmd
}

func (a *app) export(ctx context.Context, c *config.Config, f *exportFlags) error {
	if err := needBrokers(c); err != nil {
		return err
	}
	o, err := node.ExportOptions(c)
	if err != nil {
		return &failure{Exit: exitUsage, Err: err}
	}
	if o.Dir = or(f.dir, o.Dir); o.Dir == "" {
		return usagef("name the target directory with --dir DIRECTORY")
	}
	gaps, err := pipeline.ParseGaps(f.acceptGap)
	if err != nil {
		return &failure{Exit: exitUsage, Msg: "--accept-gap", Err: err}
	}
	for _, g := range gaps {
		o.AcceptGaps = append(o.AcceptGaps, analytics.Acceptance(g))
	}
	if o.Client, err = a.kafka(ctx, c, analytics.ClientOptions()...); err != nil {
		return err
	}
	defer o.Client.Close()
	names := topics.Names{Prefix: c.Topics.Prefix}
	o.Topic, o.Watermarks = names.Events(), names.Watermarks()
	if !o.Users.Plain && o.Users.Key == nil {
		a.note("user ids and tags are left out: set export.user_hash_key for hashes of them")
	}
	if f.follow {
		o.Logger = a.log(c)
		a.note("exporting to %s until interrupted", o.Dir)
		return exportFailure(c, analytics.New(o).Follow(ctx))
	}
	r, err := analytics.New(o).Export(ctx)
	if err != nil {
		return exportFailure(c, err)
	}
	return a.out.item(r, func() string {
		text := fmt.Sprintf("exported %s to %s: %s sealed, %s in the tail", count(r.Events, "event"), r.Dir,
			count(int64(r.Files), "file"), count(r.TailRows, "event"))
		if r.Snapshots > 0 {
			text += ", " + count(int64(r.Snapshots), "snapshot")
		}
		if r.NotEvents > 0 {
			text += fmt.Sprintf("; among them %s without an event", count(r.NotEvents, "record"))
		}
		return text
	})
}

// exportFailure adds the exit code to an error of an export.
func exportFailure(c *config.Config, err error) error {
	if e, ok := errors.AsType[*analytics.Error](err); ok {
		exit := exitUsage
		if e.Code == analytics.CodeGap || e.Code == analytics.CodeDamaged {
			exit = exitLoss
		}
		return &failure{Exit: exit, Err: err}
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return &failure{Exit: exitNotFound, Msg: fmt.Sprintf("there is no topic %s", c.Topic("events"))}
	}
	return err
}

func newEventsViews(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "views",
		Short: "Write SQL views for DuckDB into a directory of events export",
		Long: `Write views.sql into a directory of events export: views for DuckDB that answer
the usual questions. The views read the directory anew with each query.`,
		Example: "  waterclock events views --dir ./lake\n  duckdb -init ./lake/views.sql",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if dir = or(dir, c.Export.Dir); dir == "" {
				return usagef("name the export's directory with --dir DIRECTORY")
			}
			return a.views(dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of the export (default: export.dir)")
	return cmd
}

func (a *app) views(dir string) error {
	all, err := analytics.Manifests(dir)
	if err != nil {
		return exportFailure(nil, err)
	}
	if len(all) == 0 {
		return &failure{Exit: exitNotFound, Msg: fmt.Sprintf(
			"%s has no export yet: waterclock events export --dir %s", dir, dir)}
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := analytics.PrepareViews(dir); err != nil {
		return failf("%v", err)
	}
	name := filepath.Join(dir, "views.sql")
	//nolint:gosec // analysts read it
	if err := os.WriteFile(name, []byte(analytics.Views(full)), 0o644); err != nil {
		return failf("%v", err)
	}
	out := struct {
		File  string   `json:"file"`
		Views []string `json:"views"`
	}{name, analytics.ViewNames()}
	return a.out.item(out, func() string {
		return fmt.Sprintf("wrote %s with %s; open it with: duckdb -init %s", name,
			count(int64(len(out.Views)), "view"), name)
	})
}
