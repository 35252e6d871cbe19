package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// readers finds channels that wait for receipts but have no consumer group. The notes of a
// command name them.
type readers struct {
	c     *config.Config
	cl    *kgo.Client
	admin *kadm.Client

	read  map[string]bool // whether a group reads the topic; nil if not known
	asked time.Time
}

// readersFor is how long an answer is kept, so that `apply` does not ask once per trigger.
// readersWithin bounds one request.
const (
	readersFor    = 10 * time.Second
	readersWithin = 2 * time.Second
)

// unserved returns the channels that wait for receipts and that no consumer group reads. It
// leaves out channels for which it cannot find out.
func (r *readers) unserved(ctx context.Context, channels []string) (list []string) {
	ctx, cancel := context.WithTimeout(ctx, readersWithin)
	defer cancel()
	for _, name := range channels {
		if ch := r.c.Channel(name); ch.Receipts && r.nobody(ctx, name, ch.Topic) {
			list = append(list, name)
		}
	}
	return list
}

func (r *readers) nobody(ctx context.Context, channel, topic string) bool {
	if r.asked.IsZero() || time.Since(r.asked) > readersFor {
		read, err := kafkapart.TopicsRead(ctx, r.cl, r.c.ContentGroup())
		if r.read, r.asked = read, time.Now(); err != nil {
			r.read = nil
		}
	}
	if r.read == nil || r.read[topic] || r.read[topics.HighLane(topic)] {
		return false
	}
	// Kafka does not list a group that the caller may not describe. But the name of the worker's
	// group is known, so ask for it by name.
	group := r.c.Group + "." + channel
	found, err := r.admin.DescribeGroups(ctx, group)
	return err == nil && !errors.Is(found[group].Err, kerr.GroupAuthorizationFailed)
}
