package main

import (
	"cmp"
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
)

func newDev(a *app) *cobra.Command {
	var demo bool
	var outbox string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: Kafka broker, engine, HTTP API, history",
		Long: `Run everything in one process, for development and small installations:
an embedded Kafka broker, the engine, the HTTP API and the history. Data is
kept in ./waterclock-data (--data-dir) and survives kill -9. Push, SMS and mail are
sent where a provider is configured; with --outbox they are written to a folder.`,
		Example: "  waterclock dev\n  waterclock dev --demo\n  waterclock dev --outbox ./outbox",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, given := a.flags.Values()["roles"]; given {
				return usagef("dev runs every role in one process: --roles is for waterclock serve")
			}
			c, err := a.config(true)
			if err != nil {
				return err
			}
			c.Outbox.Dir = cmp.Or(outbox, c.Outbox.Dir)
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.runDev(ctx, c, demo)
		},
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "schedule a few triggers and show them firing")
	cmd.Flags().StringVar(&outbox, "outbox", "",
		"write push, SMS and mail to the folder `DIR` in place of sending them")
	a.flags.BindAllDev(cmd.Flags())
	_ = cmd.Flags().MarkHidden("roles") // the flag exists only to be refused with a good message
	briefHelp(cmd)
	return cmd
}

// runDev runs the node and prints its state.
func (a *app) runDev(ctx context.Context, c *config.Config, demo bool) error {
	restoring := a.progress("", 0)
	hooks := node.DevHooks{
		Restoring: func(done, total int64) {
			if total != restoring.total {
				restoring.end()
				restoring = a.progress("restoring", total)
			}
			restoring.done(done)
		},
		Ready: func(url, brokers string) {
			restoring.end()
			a.banner(c, url, brokers)
		},
	}
	if demo {
		hooks.Beside = func(ctx context.Context) error { return a.runDemo(ctx, c) }
	}
	return node.Dev(ctx, node.Options{Config: c, Logger: a.log(c), Version: buildVersion()}, hooks)
}

// banner prints the addresses, and commands to paste. The commands include the flags that a
// non-default address needs.
func (a *app) banner(c *config.Config, url, kafka string) {
	at := ""
	if kafka != defaultKafka {
		at = " --brokers " + kafka
	}
	console := ""
	if c.Console.Enabled {
		console = "  Console " + url + "/console/\n"
	}
	fmt.Fprintf(a.io.out, `Waterclock is running. Data in %s, Ctrl-C to stop.

  Kafka   %s
  HTTP    %s   (/readyz, /metrics, /v1/triggers)
%[6]s
Schedule something, in another terminal:

  waterclock schedule tea --in 5s --data '{"say":"tea is ready"}' --wait%[4]s
  echo '{"say":"tea is ready"}' | kcat -P -b %[2]s -t %[5]s -k tea2 -X topic.partitioner=murmur2_random -H wc-delay=5s

Watch what fires:

  waterclock due tail default --from-beginning%[4]s
`, c.DataDir, kafka, url, at, c.Topic("commands"), console)
	if c.Outbox.Dir != "" {
		fmt.Fprintf(a.io.out, "\nPush, SMS and mail are written to %s, and not sent.\n",
			filepath.Join(c.Outbox.Dir, "index.html"))
	}
}

// defaultKafka is the command line's default for --brokers.
const defaultKafka = "127.0.0.1:9092"
