package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/internal/config"
)

type recordFlags struct {
	dir    string
	follow bool
	topics []string
}

func newEventsRecord(a *app) *cobra.Command {
	f := &recordFlags{}
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write all topics to a directory, for events verify",
		Long: `Write every record of every topic to a directory: commands, receipts, events,
due events, refusals, dead letters, state and control, with those of aborted
transactions and the markers that end transactions. events verify --from reads it.

Commands must be recorded while they happen: compaction leaves only the latest
one of a key after seven days. With --follow the recording goes on until you
interrupt it. To continue a recording that was killed, run it again with the
same --dir.`,
		Example: "  waterclock events record --dir ./history --follow\n  waterclock events verify --from ./history",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.dir == "" {
				return usagef("name the target directory with --dir DIRECTORY")
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.record(cmd, c, f)
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", "", "`directory` of the recording, created if it does not exist")
	cmd.Flags().BoolVar(&f.follow, "follow", false, "go on until interrupted")
	cmd.Flags().StringSliceVar(&f.topics, "topic", nil, "also this `topic` of a channel's own; may be repeated")
	return cmd
}

// recorded is the result of a recording.
type recorded struct {
	Dir     string `json:"dir"`
	Records int64  `json:"records"`
	Seconds int64  `json:"seconds"`
}

func (a *app) record(cmd *cobra.Command, c *config.Config, f *recordFlags) error {
	begin := time.Now()
	done, gaps, err := a.recordTo(cmd, c, f)
	if err != nil {
		return err
	}
	out := recorded{f.dir, done, int64(time.Since(begin).Seconds())}
	if err := a.out.item(out, func() string {
		return "recorded " + count(done,
			"record") + " to " + f.dir + "; check them with: waterclock events verify --from " + f.dir
	}); err != nil || gaps == 0 {
		return err
	}
	return &failure{
		Exit: exitLoss,
		Msg:  "records expired before they were recorded: record more often, or keep them longer",
	}
}

// recordTo returns the number of records it wrote and the number of gaps it found.
func (a *app) recordTo(cmd *cobra.Command, c *config.Config, f *recordFlags) (done int64, gaps int, err error) {
	cl, err := a.kafka(cmd.Context(), c, kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	var shown *bar
	o := check.RecordOptions{
		Dir: f.dir, Prefix: c.Topics.Prefix, Topics: append(channelTopics(c), f.topics...),
		Follow: f.follow,
		Warn:   func(s string) { a.note("waterclock: warning: %s", s) },
		Gap: func(s string) {
			gaps++
			a.note("waterclock: warning: %s", s)
		},
		Progress: func(n, total int64) {
			done = n
			if shown == nil && !f.follow {
				shown = a.progress("recording", total)
			}
			if shown != nil {
				shown.done(n)
			}
		},
	}
	if f.follow {
		a.note("recording to %s until interrupted", f.dir)
	}
	err = check.RecordLive(cmd.Context(), cl, o)
	if shown != nil {
		shown.end()
	}
	return done, gaps, err
}

// channelTopics returns the due topics that have a configured name instead of the default one.
func channelTopics(c *config.Config) (out []string) {
	for name := range c.Channels {
		if t := c.Channel(name).Topic; t != "" && t != c.Topic("due."+name) {
			out = append(out, t)
		}
	}
	return out
}
