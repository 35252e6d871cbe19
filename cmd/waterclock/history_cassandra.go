package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/sinks/cassandra"
)

func newHistoryMigrate(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or update the keyspace in Cassandra; safe to repeat, also from several machines at once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.migrate(cmd.Context(), c)
		},
	}
	a.flags.Bind(cmd.Flags(), "cassandra.hosts", "cassandra.keyspace")
	return cmd
}

func (a *app) migrate(ctx context.Context, c *config.Config) error {
	o, err := node.CassandraOptions(c)
	if err != nil {
		return err
	}
	did, err := cassandra.Migrate(ctx, o)
	if err != nil {
		return err
	}
	items := make([]any, len(did.Applied))
	for i, name := range did.Applied {
		items[i] = struct {
			Applied string `json:"applied"`
		}{name}
	}
	a.note("keyspace %s has schema version %d; %s applied", o.Keyspace, did.Version,
		plural(len(did.Applied), "migration"))
	return a.out.list(items, []string{"applied"}, func(i int) []string { return []string{did.Applied[i]} })
}

// openKeyspaces opens the keyspace in use for reading, and creates a fresh one.
func (a *app) openKeyspaces(ctx context.Context, c *config.Config, f *rebuildFlags) (old, fresh tables, err error) {
	o, err := node.CassandraOptions(c)
	if err != nil {
		return old, fresh, err
	}
	if f.dir != "" {
		return old, fresh, usagef("--dir is for histories without Cassandra; name a fresh keyspace with --keyspace")
	}
	made := o
	if made.Keyspace = or(f.keyspace, o.Keyspace+"_rebuild"); made.Keyspace == o.Keyspace {
		return old, fresh, usagef("keyspace %s is in use; name a fresh one with --keyspace", o.Keyspace)
	}
	if _, err := cassandra.Migrate(ctx, made); err != nil {
		return old, fresh, err
	}
	into, err := cassandra.New(made)
	if err != nil {
		return old, fresh, err
	}
	fresh = tablesOf("keyspace "+made.Keyspace, into)
	if f.noCompare {
		return old, fresh, nil
	}
	live, err := cassandra.New(o)
	if err != nil {
		fresh.close()
		return old, tables{}, err
	}
	return tablesOf("keyspace "+o.Keyspace, live), fresh, nil
}
