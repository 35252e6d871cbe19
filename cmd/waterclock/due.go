package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

func newDue(a *app) *cobra.Command {
	return parent("due", "Read due events", newDueTail(a))
}

func newDueTail(a *app) *cobra.Command {
	f := &tailFlags{}
	cmd := &cobra.Command{
		Use:   "tail CHANNEL",
		Short: "Print a channel's due events as they come",
		Args:  oneChannel,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			lanes, err := a.lanes(cmd.Context(), c, args[0], f)
			if err != nil || lanes == nil {
				return err
			}
			return a.tail(cmd.Context(), c, lanes, f, func(r *kgo.Record) (bool, error) {
				return true, a.out.item(newDueView(r), func() string { return dueLine(r) })
			})
		},
	}
	f.bind(cmd)
	return cmd
}

// oneChannel requires exactly one argument, a valid channel name.
func oneChannel(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs the name of one CHANNEL, such as default", cmd.CommandPath())
	}
	if !topics.ValidChannel(args[0]) {
		return usagef("%q is not a channel: lower case letters, digits, '.', '_', '-', at most 49, not ending in .high",
			args[0])
	}
	return nil
}

// topicPollEvery is the time between two checks for a topic that does not exist yet.
const topicPollEvery = 200 * time.Millisecond

// lanes returns the topics of a channel: its due topic and, if it exists, the topic for priority
// high. The first trigger of a channel may create its topic. A tail that follows waits for the
// topic and then reads from its beginning. lanes returns nil if the user interrupts the wait.
func (a *app) lanes(ctx context.Context, c *config.Config, channel string, f *tailFlags) ([]string, error) {
	cl, err := a.kafka(ctx, c)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	topic := c.Channel(channel).Topic
	for waiting := false; ; waiting = true {
		lanes, err := kafkapart.Existing(ctx, cl, topic, topics.HighLane(topic))
		switch {
		case interrupted(ctx):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("describe %v: %w", []string{topic, topics.HighLane(topic)}, err)
		case len(lanes) > 0:
			f.fromBeginning = f.fromBeginning || waiting
			return lanes, nil
		case f.noFollow:
			return nil, &failure{
				Exit: exitNotFound,
				Msg:  fmt.Sprintf("channel %s has no topic %s yet: its first trigger creates it", channel, topic),
			}
		case !waiting:
			a.note("channel %s has no topic %s yet; waiting for the first trigger to create it", channel, topic)
		}
		select {
		case <-ctx.Done():
		case <-time.After(topicPollEvery):
		}
	}
}

// dueView is the JSON form of a due event that `due tail` prints (docs/cli.md). It has value if
// the payload is JSON, else value_base64.
type dueView struct {
	Key         string          `json:"key"`
	Headers     map[string]any  `json:"headers"` // a string, or a list of strings if a name occurs more than once
	Value       json.RawMessage `json:"value,omitempty"`
	ValueBase64 *string         `json:"value_base64,omitempty"`
}

func newDueView(r *kgo.Record) dueView {
	v := dueView{Key: string(r.Key), Headers: map[string]any{}}
	for _, h := range r.Headers {
		switch have := v.Headers[h.Key].(type) {
		case nil:
			v.Headers[h.Key] = string(h.Value)
		case string:
			v.Headers[h.Key] = []string{have, string(h.Value)}
		case []string:
			v.Headers[h.Key] = append(have, string(h.Value))
		}
	}
	if json.Valid(r.Value) {
		v.Value = r.Value
		return v
	}
	text := base64.StdEncoding.EncodeToString(r.Value)
	v.ValueBase64 = &text
	return v
}

// dueLine describes a due event for a person.
func dueLine(r *kgo.Record) string {
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	parts := []string{headers["ce_wcfired"], headers["ce_id"], "due=" + headers["ce_time"], "attempt=" +
		headers["ce_wcattempt"]}
	return strings.Join(append(parts, string(r.Value)), "  ")
}
