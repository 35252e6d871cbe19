package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/topics"
)

func newTopics(a *app) *cobra.Command {
	return parent("topics", "Compare the topics with the required settings, or apply them", newTopicsPlan(a),
		newTopicsApply(a))
}

func newTopicsPlan(a *app) *cobra.Command {
	f := &aclFlags{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what `topics apply` would do, and the ACLs; exit code 4 if it would refuse",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.only {
				return a.printACLs(f)
			}
			return a.withPlan(cmd.Context(),
				func(_ *kgo.Client, c *config.Config, channels []string, plan []topics.Change) error {
					acls, err := f.acls(c, channels)
					if err != nil {
						return err
					}
					if err := a.printPlanAndACLs(c, plan, acls); err != nil {
						return err
					}
					return refusal(plan)
				})
		},
	}
	f.bind(cmd)
	return cmd
}

func newTopicsApply(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "apply",
		Short: "Create missing topics and correct settings; never touches partitions or loses data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPlan(cmd.Context(),
				func(cl *kgo.Client, c *config.Config, channels []string, plan []topics.Change) error {
					if err := refusal(plan); err != nil {
						return err
					}
					bar := a.progress("topics", int64(kafkaconn.Steps(plan)))
					err := kafkaconn.Apply(cmd.Context(), cl, kafkaconn.Wanted(c, channels...), plan,
						func(done int) { bar.done(int64(done)) })
					bar.end()
					if err != nil {
						return err
					}
					return a.printPlan(plan)
				})
		},
	}
}

// refusal returns an error if the plan has a change that a person must decide about first.
func refusal(plan []topics.Change) error {
	if err := topics.Check(plan, true); err != nil {
		return &failure{Exit: exitConflict, Err: err}
	}
	return nil
}

// withPlan compares the settings with the brokers and calls do with the result. channels are
// those that were created by use.
func (a *app) withPlan(ctx context.Context,
	do func(cl *kgo.Client, c *config.Config, channels []string, plan []topics.Change) error,
) error {
	c, err := a.config(false)
	if err != nil {
		return err
	}
	cl, err := a.kafka(ctx, c)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := a.partitionsOf(ctx, c, kadm.NewClient(cl)); err != nil {
		return err
	}
	channels, err := channelsInUse(ctx, c, kadm.NewClient(cl))
	if err != nil {
		return err
	}
	want := kafkaconn.Wanted(c, channels...)
	plan, _, err := kafkaconn.Plan(ctx, cl, want)
	if err != nil {
		return err
	}
	return do(cl, c, channels, plan)
}

// channelsInUse returns the channels that have a topic named after them.
func channelsInUse(ctx context.Context, c *config.Config, admin *kadm.Client) (channels []string, err error) {
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	names := topics.Names{Prefix: c.Topics.Prefix}
	for _, topic := range all.Names() {
		if errors.Is(all[topic].Err, kerr.UnknownTopicOrPartition) {
			continue // another check asked for it at the same time, and the client shares its metadata
		}
		if ch := names.Channel(topic); ch != "" && !isHighLane(all, topic) {
			channels = append(channels, ch)
		}
	}
	return channels, nil
}

// partitionsOf takes P from the topics, unless a setting names it. The defaults of dev and of a
// cluster differ, and the command line talks to both.
func (a *app) partitionsOf(ctx context.Context, c *config.Config, admin *kadm.Client) error {
	if c.Source("topics.partitions").Kind != "default" {
		return nil
	}
	commands := c.Topic("commands")
	all, err := admin.ListTopics(ctx, commands)
	if err != nil {
		return fmt.Errorf("describe topic %s: %w", commands, err)
	}
	if n := len(all[commands].Partitions); n > 0 && n != c.Topics.Partitions {
		a.note("topics.partitions is not set: using %d, as topic %s has", n, commands)
		c.Topics.Partitions = n
	}
	return nil
}

// isHighLane reports whether a topic is the priority-high topic of another channel, and not a
// channel of its own.
func isHighLane(all kadm.TopicDetails, topic string) bool {
	for other := range all {
		if topics.HighLane(other) == topic {
			return true
		}
	}
	return false
}

func (a *app) printPlan(plan []topics.Change) error {
	if len(plan) == 0 {
		a.note("all topics have the required settings")
	}
	return a.out.list(changeItems(plan), []string{"change", "topic", "setting", "have", "want"}, func(i int) []string {
		return []string{plan[i].Kind.String(), plan[i].Topic, plan[i].Setting, plan[i].Have, plan[i].Want}
	})
}

func changeItems(plan []topics.Change) []any {
	items := []any{}
	for _, c := range plan {
		items = append(items, struct {
			Change  string `json:"change"`
			Topic   string `json:"topic"`
			Setting string `json:"setting,omitempty"`
			Have    string `json:"have,omitempty"`
			Want    string `json:"want,omitempty"`
			Why     string `json:"why,omitempty"`
		}{c.Kind.String(), c.Topic, c.Setting, c.Have, c.Want, c.Why})
	}
	return items
}
