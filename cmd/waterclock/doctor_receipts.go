package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// latestEvents is the number of offsets to read from the end of each partition.
const latestEvents = 2000

// receipts warns about receipts for channels that do not use receipts. The engine records such a
// receipt but ignores it, so a requested retry does not happen.
func (d *doctor) receipts(ctx context.Context) {
	if d.lacks(ctx, "receipts", d.c.Topic("events")) {
		return
	}
	found, err := d.receiptsInVain(ctx)
	switch {
	case err != nil:
		d.warn("receipts", "allow READ on it", "topic %s cannot be read: %v", d.c.Topic("events"), err)
		return
	case len(found) == 0:
		d.ok("receipts", "the latest events have no receipts for channels without receipts")
		return
	}
	channels := slices.Sorted(maps.Keys(found))
	said := make([]string, len(channels))
	for i, name := range channels {
		said[i] = fmt.Sprintf("%s (%d)", clean(name), found[name])
	}
	d.warn("receipts", "the engine ignores them and does not retry: set channels."+clean(channels[0])+
		".receipts=true, or stop sending them", "receipts arrived for channels without receipts: %s",
		strings.Join(said, ", "))
}

// receiptsInVain counts such receipts by channel.
func (d *doctor) receiptsInVain(ctx context.Context) (map[string]int, error) {
	cl, err := d.app.kafkaReader(ctx, d.c)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	f := &tailFlags{last: latestEvents, partition: -1}
	s, err := f.span(ctx, kadm.NewClient(cl), []string{d.c.Topic("events")})
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	err = s.read(ctx, cl, func() {}, func(r *kgo.Record) {
		var e topics.Event
		if json.Unmarshal(r.Value, &e) == nil && e.Reason == trigger.ReasonNoReceipts {
			found[e.Channel]++
		}
	})
	return found, err
}
