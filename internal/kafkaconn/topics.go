package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// Wanted is the catalogue as the settings have it: the topics of every
// channel that is configured, of `default`, and of those named in channels.
func Wanted(c *config.Config, channels ...string) []topics.Topic {
	p, r := int32(c.Topics.Partitions), replication(c)
	want := topics.Catalogue(topics.Names{Prefix: c.Topics.Prefix}, p, r, nil)
	for i := range want {
		if want[i].Name == c.Topic("events") {
			want[i].Configs["retention.ms"] = retention(c)
		}
	}
	for _, name := range channelNames(c, channels) {
		ch := c.Channel(name)
		if ch.Partitioning == "by_key" && ch.Topic != c.Topic("due."+name) {
			continue // a topic of the team's own, with partitions of its own
		}
		want = append(want, topics.DueTopic(ch.Topic, p, r))
		if ch.HighLane {
			want = append(want, topics.DueTopic(topics.HighLane(ch.Topic), p, r))
		}
	}
	return want
}

func channelNames(c *config.Config, more []string) []string {
	names := append([]string{"default"}, more...)
	for name := range c.Channels {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// replication is Kafka's -1, the brokers' default, for 0.
func replication(c *config.Config) int16 {
	if c.Topics.Replication == 0 {
		return -1
	}
	return int16(c.Topics.Replication)
}

func retention(c *config.Config) string {
	if c.Events.Retention == 0 {
		return "-1"
	}
	return strconv.FormatInt(c.Events.Retention.Milliseconds(), 10)
}

// learnWithin is how long brokers may take to learn of a topic that another one
// shows already: one was just made, or the broker just started.
const learnWithin = 10 * time.Second

// Plan compares the catalogue with what there is, and with what the brokers can
// hold. found is what there is of the wanted topics.
func Plan(ctx context.Context, cl *kgo.Client, want []topics.Topic) (plan []topics.Change, found []topics.Existing,
	err error,
) {
	if found, err = existing(ctx, cl, want); err != nil {
		return nil, nil, err
	}
	m, err := kadm.NewClient(cl).BrokerMetadata(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list brokers: %w", err)
	}
	return topics.Replicable(topics.Plan(want, found), want, len(m.Brokers)), found, nil
}

// existing is what the cluster has of the wanted topics, with the settings in
// effect. Topics that are not there are left out.
func existing(ctx context.Context, cl *kgo.Client, want []topics.Topic) ([]topics.Existing, error) {
	for begun := time.Now(); ; {
		found, err := existingNow(ctx, cl, want)
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || time.Since(begun) > learnWithin {
			return found, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// existingNow asks afresh: kadm would answer from the client's cache, which is up to
// 5 s behind an Apply.
func existingNow(ctx context.Context, cl *kgo.Client, want []topics.Topic) ([]topics.Existing, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for i := range want {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &want[i].Name
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var out []topics.Existing
	var there []string
	for _, t := range resp.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			continue
		case err != nil:
			return nil, fmt.Errorf("describe topic %s: %w", *t.Topic, err)
		}
		out = append(out, topics.Existing{
			Name: *t.Topic, Partitions: int32(len(t.Partitions)),
			Configs: map[string]string{},
		})
		there = append(there, *t.Topic)
	}
	if len(there) == 0 {
		return nil, nil
	}
	return out, readConfigs(ctx, kadm.NewClient(cl), there, out)
}

func readConfigs(ctx context.Context, admin *kadm.Client, names []string, into []topics.Existing) error {
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("read topic settings: %w", err)
	}
	for i := range into {
		rc, err := configs.On(into[i].Name, nil)
		if err == nil {
			err = rc.Err
		}
		if err != nil {
			return fmt.Errorf("read settings of %s: %w", into[i].Name, err)
		}
		for _, kv := range rc.Configs {
			into[i].Configs[kv.Key] = kv.MaybeValue()
		}
	}
	return nil
}

// Apply creates what a plan says is missing and alters what differs. It does
// nothing at all where the plan refuses something, and returns when a broker
// shows what it made, for which it waits up to a minute. A topic that somebody else made meanwhile is no error:
// Plan again to see how they made it. progress, which may be nil, is told how many of Steps are done.
func Apply(
	ctx context.Context, cl *kgo.Client, want []topics.Topic, plan []topics.Change, progress func(done int),
) error {
	if progress == nil {
		progress = func(int) {}
	}
	admin := kadm.NewClient(cl)
	if err := topics.Check(plan, true); err != nil {
		return err
	}
	byName := map[string]*topics.Topic{}
	for i := range want {
		byName[want[i].Name] = &want[i]
	}
	for i, change := range plan {
		if err := applyOne(ctx, admin, byName[change.Topic], change); err != nil {
			return fmt.Errorf("%s: %w", change, err)
		}
		progress(i + 1)
	}
	var made []topics.Topic
	for _, name := range Created(plan) {
		made = append(made, *byName[name])
	}
	return awaitTopics(ctx, cl, made, func(shown int) { progress(len(plan) + shown) })
}

// Steps is how many steps Apply takes: each change, and to see each topic that is created.
func Steps(plan []topics.Change) int { return len(plan) + len(Created(plan)) }

// Created names the topics that a plan creates.
func Created(plan []topics.Change) (names []string) {
	for _, change := range plan {
		if change.Kind == topics.Create {
			names = append(names, change.Topic)
		}
	}
	return names
}

// How long a created topic is looked for, and how often: the controller has
// made it before the brokers know, which took a loaded machine more than 10 s.
const (
	topicWithin = time.Minute
	topicEvery  = 20 * time.Millisecond
)

func awaitTopics(ctx context.Context, cl *kgo.Client, made []topics.Topic, progress func(shown int)) error {
	ctx, cancel := context.WithTimeout(ctx, topicWithin)
	defer cancel()
	for len(made) > 0 {
		have, err := existing(ctx, cl, made)
		if err == nil {
			progress(len(have))
			if len(have) == len(made) {
				return nil
			}
		}
		select {
		case <-time.After(topicEvery):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d topics are created, but the brokers do not show them yet: run this again (%w)",
				len(made)-len(have), len(made), errors.Join(ctx.Err(), err))
		}
	}
	return nil
}

func applyOne(ctx context.Context, admin *kadm.Client, t *topics.Topic, change topics.Change) error {
	if change.Kind == topics.Alter {
		alter := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: change.Setting, Value: kadm.StringPtr(change.Want)}}
		answers, err := admin.AlterTopicConfigs(ctx, alter, change.Topic)
		if err != nil {
			return err
		}
		answer, err := answers.On(change.Topic, nil)
		if err != nil {
			return err
		}
		return answer.Err
	}
	configs := map[string]*string{}
	for name, value := range t.Configs {
		configs[name] = kadm.StringPtr(value)
	}
	_, err := admin.CreateTopic(ctx, t.Partitions, t.Replication, configs, t.Name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}
