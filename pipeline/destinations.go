package pipeline

import (
	"cmp"
	"context"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// destinations are where a partition's due events go, and whether they can go there now.
type destinations struct {
	channels  Channels
	topics    *output.Topics
	partition int32
	kept      *Kept
}

// unhealthy reports whether a due event's topic refuses records now.
func (d *destinations) unhealthy(ctx context.Context, f *trigger.Fire) *output.Unhealthy {
	settings := d.channels.Settings(f.Channel)
	topic := settings.dueTopic(f)
	if d.kept.dangling.Holds(topic) {
		return &output.Unhealthy{Silent: true}
	}
	u, ask := d.kept.health.Of(topic)
	if !ask {
		return u
	}
	d.kept.Step(stepDueTopic)
	defer d.kept.Step(StepEmit)
	return d.kept.health.Check(ctx, topic, settings.ByKey)
}

// of returns the topic and partition of a due event, for its events and for send.
// With partitioning by key, unhealthy must have asked for the topic before.
func (d *destinations) of(f *trigger.Fire) (topic string, partition int32) {
	settings := d.channels.Settings(f.Channel)
	topic, partition = settings.dueTopic(f), d.partition
	if settings.ByKey {
		if n := d.topics.Count(topic); n > 0 {
			partition = topics.Partition([]byte(cmp.Or(f.Spec.TargetKey, string(f.Key))), n)
		}
	}
	return topic, partition
}

// located reports whether of knows all it needs.
func (d *destinations) located(f *trigger.Fire) bool {
	settings := d.channels.Settings(f.Channel)
	return !settings.ByKey || d.topics.Knows(settings.dueTopic(f))
}

// dueTopic is the channel's topic, or its high lane.
func (c *ChannelSettings) dueTopic(f *trigger.Fire) string {
	if c.HighLane && f.Spec.Priority == trigger.High {
		return topics.HighLane(c.Topic)
	}
	return c.Topic
}
