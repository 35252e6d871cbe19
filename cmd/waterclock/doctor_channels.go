package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// channels warns of channels that wait for receipts, on which something is due or
// was, and that no consumer group reads.
func (d *doctor) channels(ctx context.Context) {
	waiting := d.channelTopics()
	names := slices.Sorted(maps.Keys(waiting))
	ends, err := d.admin.ListEndOffsets(ctx, slices.Collect(maps.Values(waiting))...)
	if err != nil {
		d.warn("channels", "allow DESCRIBE on them", "the due topics cannot be listed: %v", err)
		return
	}
	written := map[string]bool{}
	ends.Each(func(o kadm.ListedOffset) { written[o.Topic] = written[o.Topic] || o.Err == nil && o.Offset > 0 })
	names = slices.DeleteFunc(names, func(name string) bool { return !written[waiting[name]] })
	if len(names) == 0 {
		d.ok("channels", "nothing was due yet on a channel that waits for receipts")
		return
	}
	read, err := kafkapart.TopicsRead(ctx, d.cl, d.c.ContentGroup())
	if err != nil {
		d.warn("channels", "allow DESCRIBE on groups", "it is not known who reads the due topics: %v", err)
		return
	}
	var unserved []string
	for _, name := range names {
		if topic := waiting[name]; !read[topic] && !read[topics.HighLane(topic)] {
			unserved = append(unserved, name)
		}
	}
	if len(unserved) == 0 {
		d.ok("channels", "each channel that waits for receipts and has due events is read by a consumer group")
		return
	}
	d.warn("channels", "start its worker; what times out becomes a dead letter, and `waterclock dead-letters redrive "+
		"--code receipt_timeout` sends it again", "no consumer group reads the due events of %s",
		strings.Join(unserved, ", "))
}

// channelTopics are the due topics of channels that wait for receipts, by name.
func (d *doctor) channelTopics() map[string]string {
	found := map[string]string{}
	for _, name := range slices.AppendSeq(config.BuiltInChannels(), maps.Keys(d.c.Channels)) {
		if ch := d.c.Channel(name); ch.Receipts {
			found[name] = ch.Topic
		}
	}
	return found
}
