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

// readers finds out which channels that wait for receipts nobody serves, for notes.
type readers struct {
	c     *config.Config
	cl    *kgo.Client
	admin *kadm.Client

	read  map[string]bool // by topic; nil: not known
	asked time.Time
}

// These bound how long an answer is kept, so that `apply` does not ask for each trigger, and
// how long a question may take.
const (
	readersFor    = 10 * time.Second
	readersWithin = 2 * time.Second
)

// unserved are those of the channels that wait for receipts and that no consumer group reads.
// What is not known is left out.
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
	// A group that the caller may not see is not listed. The worker's group has a known name.
	group := r.c.Group + "." + channel
	found, err := r.admin.DescribeGroups(ctx, group)
	return err == nil && !errors.Is(found[group].Err, kerr.GroupAuthorizationFailed)
}
