package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/topics"
)

func newTopics(a *app) *cobra.Command {
	return parent("topics", "Compare the topics with what they must be, or make them so", newTopicsPlan(a), newTopicsApply(a))
}

func newTopicsPlan(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Print what `topics apply` would do; exit code 4 if it would refuse",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPlan(cmd.Context(), func(_ *kgo.Client, _ []topics.Topic, plan []topics.Change) error {
				if err := a.printPlan(plan); err != nil {
					return err
				}
				return refusal(plan)
			})
		},
	}
}

func newTopicsApply(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "apply",
		Short: "Create missing topics and correct settings; never touches partitions or loses data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPlan(cmd.Context(), func(cl *kgo.Client, want []topics.Topic, plan []topics.Change) error {
				if err := refusal(plan); err != nil {
					return err
				}
				if err := kafkaconn.Apply(cmd.Context(), cl, want, plan); err != nil {
					return err
				}
				return a.printPlan(plan)
			})
		},
	}
}

// refusal is what a person has to decide before anything is applied.
func refusal(plan []topics.Change) error {
	if err := topics.Check(plan, true); err != nil {
		return &failure{Exit: exitConflict, Err: err}
	}
	return nil
}

func (a *app) withPlan(ctx context.Context, do func(*kgo.Client, []topics.Topic, []topics.Change) error) error {
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
	want, err := wanted(ctx, c, kadm.NewClient(cl))
	if err != nil {
		return err
	}
	existing, err := kafkaconn.Existing(ctx, cl, want)
	if err != nil {
		return err
	}
	return do(cl, want, topics.Plan(want, existing))
}

// wanted is the catalogue with the channels that were created by use.
func wanted(ctx context.Context, c *config.Config, admin *kadm.Client) ([]topics.Topic, error) {
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	names := topics.Names{Prefix: c.Topics.Prefix}
	var channels []string
	for _, topic := range all.Names() {
		if ch := names.Channel(topic); ch != "" && !isHighLane(all, topic) {
			channels = append(channels, ch)
		}
	}
	return kafkaconn.Wanted(c, channels...), nil
}

// partitionsOf takes P from the topics where no setting says it: dev has
// another default than a cluster, and the command line asks either.
func (a *app) partitionsOf(ctx context.Context, c *config.Config, admin *kadm.Client) error {
	if c.Source("topics.partitions").Kind != "default" {
		return nil
	}
	commands := c.Topic("commands")
	all, err := admin.ListTopics(ctx, commands)
	if err != nil {
		return fmt.Errorf("look at %s: %w", commands, err)
	}
	if n := len(all[commands].Partitions); n > 0 && n != c.Topics.Partitions {
		a.note("topics.partitions is not set: taking %d, as %s has", n, commands)
		c.Topics.Partitions = n
	}
	return nil
}

// isHighLane says that a topic is the lane of another one, and no channel.
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
		a.note("the topics are as they must be")
	}
	var items []any
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
	return a.out.list(items, []string{"change", "topic", "setting", "have", "want"}, func(i int) []string {
		return []string{plan[i].Kind.String(), plan[i].Topic, plan[i].Setting, plan[i].Have, plan[i].Want}
	})
}
