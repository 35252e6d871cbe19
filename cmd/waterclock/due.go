package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
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
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			lanes, err := a.lanes(cmd, c, args[0])
			if err != nil {
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

// lanes are the topics of a channel: its own, and that of priority high if it
// is there.
func (a *app) lanes(cmd *cobra.Command, c *config.Config, channel string) ([]string, error) {
	cl, err := a.kafka(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	topic := c.Channel(channel).Topic
	high := topics.HighLane(topic)
	there, err := kadm.NewClient(cl).ListTopics(cmd.Context(), topic, high)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", topic, err)
	}
	if d := there[topic]; d.Err != nil || len(d.Partitions) == 0 {
		return nil, &failure{Exit: exitNotFound, Msg: fmt.Sprintf(
			"channel %s has no topic %s yet: it is made by the first `waterclock schedule … --channel %s`, or `waterclock topics apply`", channel, topic, channel)}
	}
	if d := there[high]; d.Err == nil && len(d.Partitions) > 0 {
		return []string{topic, high}, nil
	}
	return []string{topic}, nil
}

// dueView is a due event as `due tail` prints it (CONTRACT section 7): value
// where it is JSON, else value_base64.
type dueView struct {
	Key         string          `json:"key"`
	Headers     map[string]any  `json:"headers"` // a text, or a list of them where a name stands more than once
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

// dueLine is a due event for a person.
func dueLine(r *kgo.Record) string {
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	parts := []string{headers["ce_wcfired"], headers["ce_id"], "due=" + headers["ce_time"], "attempt=" + headers["ce_wcattempt"]}
	return strings.Join(append(parts, string(r.Value)), "  ")
}
