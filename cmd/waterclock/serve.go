package main

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/pipeline"
)

func newServe(a *app) *cobra.Command {
	var acceptGap, takeOver string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run roles of Waterclock against a Kafka cluster",
		Long: `Run roles of Waterclock against a Kafka cluster: engine fires triggers, api answers HTTP,
history writes to Cassandra, webhook, push, sms and email deliver, export writes Parquet files.
Start it on as many machines as you like: partitions are shared among those with the engine role.`,
		Example: "  waterclock serve --roles engine,api,history --brokers kafka-1:9092 --config waterclock.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if err := c.CheckServe(); err != nil {
				return &failure{Exit: exitUsage, Msg: "settings are wrong", Err: indented{err}}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			gaps, err := pipeline.ParseGaps(acceptGap)
			if err != nil {
				return &failure{Exit: exitUsage, Msg: "--accept-gap", Err: err}
			}
			for _, g := range gaps {
				if int(g.Partition) >= c.Topics.Partitions {
					return usagef("--accept-gap %s: there is no such partition, topics.partitions is %d", g,
						c.Topics.Partitions)
				}
			}
			return node.Serve(ctx, node.Options{
				Config: c, Logger: a.log(c), Version: buildVersion(), AcceptGaps: gaps,
				TakeOver: takeOver,
			})
		},
	}
	cmd.Flags().StringVar(&acceptGap, "accept-gap", "",
		"let a refused partition go on although commands were lost: PARTITION:OFFSET, as its message says")
	cmd.Flags().StringVar(&takeOver, "take-over", "",
		"take the topics over from another consumer group, for good: its nodes are fenced")
	a.flags.BindAll(cmd.Flags())
	briefHelp(cmd)
	return cmd
}
