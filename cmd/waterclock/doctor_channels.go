package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// liveWithin bounds the requests to the API, which may have to read every trigger. It is shorter
// than checkWithin, so that an API that hangs is not reported as brokers that hang.
const liveWithin = 2 * time.Second

// channels warns about channels that wait for receipts and that no consumer group reads, if
// something was due there or a live trigger names them.
func (d *doctor) channels(ctx context.Context) {
	if d.lacks(ctx, "channels", d.c.Topic("commands")) {
		return
	}
	waiting := d.channelTopics()
	read, err := kafkapart.TopicsRead(ctx, d.cl, d.c.ContentGroup())
	if err != nil {
		d.warn("channels", "", "the readers of the due topics are unknown: %v", err)
		return
	}
	maps.DeleteFunc(waiting, func(_, topic string) bool { return read[topic] || read[topics.HighLane(topic)] })
	if len(waiting) == 0 {
		d.ok("channels", "a consumer group reads each channel that waits for receipts")
		return
	}
	written, err := d.written(ctx, waiting)
	if err != nil {
		d.warn("channels", "allow DESCRIBE on them", "the due topics cannot be listed: %v", err)
		return
	}
	var unserved, idle []string
	asked := true
	from := newAPI(d.c)
	ctx, cancel := context.WithTimeout(ctx, liveWithin)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if written[name] {
			unserved = append(unserved, name)
			continue
		}
		key := ""
		if asked { // after one failure, do not ask the API about the other channels
			key, asked = d.liveOn(ctx, from, name)
		}
		if key != "" {
			unserved = append(unserved, fmt.Sprintf("%s (trigger %s waits)", name, clean(key)))
		} else {
			idle = append(idle, name)
		}
	}
	d.unserved(unserved, idle, asked)
}

// unserved reports the result of channels. Without an API it only knows where something was due:
// no topic that can be read in seconds says which triggers wait.
func (d *doctor) unserved(unserved, idle []string, asked bool) {
	switch {
	case len(unserved) > 0:
		d.warn("channels", "start its worker; what times out becomes a dead letter: redrive it with `waterclock "+
			"dead-letters redrive --code receipt_timeout`",
			"no consumer group reads the due events of %s", strings.Join(unserved, ", "))
	case asked:
		d.ok("channels", "no trigger uses a channel that no consumer group reads (%s)", strings.Join(idle, ", "))
	default:
		d.warn("channels", "name one that answers with --url",
			"no consumer group reads some channels (%s), but nothing was due on them yet. Whether triggers wait for "+
				"them is unknown: only an API knows, and none answered within %s", strings.Join(idle, ", "), liveWithin)
	}
}

// written returns the channels whose due topics have records.
func (d *doctor) written(ctx context.Context, channels map[string]string) (map[string]bool, error) {
	ends, err := d.admin.ListEndOffsets(ctx, slices.Collect(maps.Values(channels))...)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for name, topic := range channels {
		for _, o := range ends[topic] {
			found[name] = found[name] || o.Err == nil && o.Offset > 0
		}
	}
	return found, nil
}

// liveOn returns a live trigger of the caller's tenant that names a channel, or "" if there is
// none. known is false if the API does not say. An answer may be an empty page with a cursor,
// because the API bounds how many triggers it reads for one answer.
func (d *doctor) liveOn(ctx context.Context, from *api, channel string) (key string, known bool) {
	q := url.Values{"channel": {channel}, "state": {"PENDING,PAUSED,IN_FLIGHT"}, "limit": {"1"}}
	for {
		var page struct {
			Items []struct {
				TriggerID string `json:"trigger_id"`
			} `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		err := from.get(ctx, "/v1/triggers?"+q.Encode(), &page)
		switch {
		case err != nil:
			return "", false
		case len(page.Items) > 0:
			return page.Items[0].TriggerID, true
		case page.NextCursor == "":
			return "", true
		}
		q.Set("cursor", page.NextCursor)
	}
}

// channelTopics returns the due topics of the channels that wait for receipts, by channel name.
func (d *doctor) channelTopics() map[string]string {
	found := map[string]string{}
	for _, name := range slices.AppendSeq(config.BuiltInChannels(), maps.Keys(d.c.Channels)) {
		if ch := d.c.Channel(name); ch.Receipts {
			found[name] = ch.Topic
		}
	}
	return found
}
