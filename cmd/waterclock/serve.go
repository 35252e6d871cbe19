package main

import (
	"context"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/pipeline"
)

func newServe(a *app) *cobra.Command {
	var acceptGap, takeOver string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run roles of Waterclock against a Kafka cluster",
		Long: `Run roles of Waterclock against a Kafka cluster: engine fires triggers,
api answers HTTP, history writes to Cassandra. Start it on as many machines as
you like: partitions are shared among those with the engine role.`,
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
			return a.runServe(ctx, c, gaps, takeOver)
		},
	}
	cmd.Flags().StringVar(&acceptGap, "accept-gap", "", "let a refused partition go on although commands were lost: PARTITION:OFFSET, as its message says")
	cmd.Flags().StringVar(&takeOver, "take-over", "", "take the topics over from another consumer group, for good: its nodes are fenced")
	a.flags.BindAll(cmd.Flags())
	return cmd
}

func (a *app) runServe(ctx context.Context, c *config.Config, gaps []pipeline.Gap, takeOver string) error {
	dir, err := openDataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	n, err := newNode(c, a.log(c), false)
	if err != nil {
		return err
	}
	defer n.closeTracing()
	n.acceptGaps, n.takeOver = gaps, takeOver
	ln, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	if err := mayListen(c, ln.Addr()); err != nil {
		return err
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openHistory(); err != nil {
		return err
	}
	defer n.closeHistory()
	return a.serveRoles(ctx, n, ln)
}

// serveRoles starts the roles that were asked for and waits. Probes, metrics
// and /v1/partitions are answered whatever the roles.
func (a *app) serveRoles(ctx context.Context, n *node, ln net.Listener) error {
	life := newLife()
	if err := n.openInternal(); err != nil {
		return err
	}
	defer n.internal.Close()
	if n.cfg.HasRole("engine") {
		if err := n.openEngine(); err != nil {
			return err
		}
	}
	if err := n.openGateway(); err != nil {
		return err
	}
	defer n.gateway.Close()
	defer life.end() // before what the roles use is closed
	if err := n.startAdmin(life); err != nil {
		return err
	}
	if n.cfg.HasRole("history") {
		life.start("history", n.runHistory)
	}
	if n.engine != nil {
		life.start("engine", n.engine.Run)
	}
	n.startInternal(life)
	life.start("http", func(ctx context.Context) error { return n.serveDoor(ctx, ln) })
	n.log.Info("serving", "roles", n.cfg.Roles, "listen", ln.Addr().String(), "internal", n.internalAddress)
	return life.wait(ctx)
}

// serveDoor is the API, or without the role only probes and metrics.
func (n *node) serveDoor(ctx context.Context, ln net.Listener) error {
	if n.cfg.HasRole("api") {
		return n.gateway.Serve(ctx, ln)
	}
	return serveHTTP(ctx, ln, n.adminHandler())
}

// startAdmin answers probes and metrics on their own address, if there is one.
func (n *node) startAdmin(life *lifeOf) error {
	if n.cfg.Admin.Listen == "" {
		return nil
	}
	ln, err := listen("admin.listen", n.cfg.Admin.Listen)
	if err != nil {
		return err
	}
	life.start("admin", func(ctx context.Context) error { return serveHTTP(ctx, ln, n.adminHandler()) })
	return nil
}
