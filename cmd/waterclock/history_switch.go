package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/cassandra"
)

func newHistorySwitch(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "switch",
		Short: "Set the offsets of the history back to where a rebuilt keyspace ends",
		Long: `Set the offsets of the history's consumer groups back to what cassandra.keyspace
holds: events, dead letters and due topics. The projectors went on with another
keyspace during a rebuild; from these offsets they write the rest into this one.
Stop all processes with role history first. No offset is set forward, so it is
safe to repeat. With no Cassandra there is nothing to switch: a directory knows
its own offsets.`,
		Example: "  waterclock history switch --cassandra-keyspace waterclock_2 --config waterclock.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if len(c.Cassandra.Hosts) == 0 {
				return usagef("cassandra.hosts is not set: without Cassandra there is nothing to switch")
			}
			o, err := node.CassandraOptions(c)
			if err != nil {
				return err
			}
			h, err := cassandra.New(o)
			if err != nil {
				return err
			}
			defer h.Close()
			return a.switchTo(cmd.Context(), c, h)
		},
	}
	a.flags.Bind(cmd.Flags(), "cassandra.hosts", "cassandra.keyspace")
	return cmd
}

// switchTo sets the offsets of the history's groups back to where a history ends, and reports them.
func (a *app) switchTo(ctx context.Context, c *config.Config, h sinks.History) error {
	cl, err := a.kafka(ctx, c) // fails with a better message
	if err != nil {
		return err
	}
	cl.Close()
	opts, err := kafkaconn.Options(c, "waterclock-switch", nil)
	if err != nil {
		return err
	}
	at, err := sinks.Positions(ctx, h, c.Topic("events"), c.Topic("dead-letter"))
	if err != nil {
		return err
	}
	var moved []sinks.Moved
	for _, group := range []string{c.HistoryGroup(), c.LettersGroup(), c.ContentGroup()} {
		of, err := sinks.Switch(ctx, opts, group, at)
		if err != nil {
			return err
		}
		moved = append(moved, of...)
	}
	a.note("%s set back to where the tables end", plural(len(moved), "offset"))
	items := make([]any, len(moved))
	for i, m := range moved {
		items[i] = m
	}
	return a.out.list(items, []string{"group", "topic", "partition", "from", "to"}, func(i int) []string {
		m := moved[i]
		return []string{
			m.Group, m.Topic, strconv.Itoa(int(m.Partition)), strconv.FormatInt(m.From, 10),
			strconv.FormatInt(m.To, 10),
		}
	})
}
