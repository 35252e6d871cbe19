package pipeline

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// claims judges whether a record was really forwarded, as its headers claim. It asks Kafka
// before the turn begins, because a transaction must not wait for another partition's
// leader.
type claims struct {
	opts   *Process
	id     int32
	log    *slog.Logger
	client *kgo.Client

	ids     map[string][16]byte                    // topic ids of commands and receipts
	ends    map[kafkapart.TopicPartition]int64     // known end offsets of source partitions
	silent  map[kafkapart.TopicPartition]time.Time // sources that did not answer, and when to ask next
	headers []trigger.Header                       // scratch memory of check
}

func newClaims(o *Process, id int32, log *slog.Logger, cl *kgo.Client, ids map[string][16]byte) claims {
	return claims{
		opts: o, id: id, log: log, client: cl, ids: ids, ends: map[kafkapart.TopicPartition]int64{},
		silent: map[kafkapart.TopicPartition]time.Time{},
	}
}

// maxForwardAge is the compaction lag of commands. What was first appended longer ago counts from the
// append of its copy.
const maxForwardAge = 7 * 24 * time.Hour

// The first bounds how long turns wait for the ends of source partitions. The second is the
// time between two questions to a silent source.
const (
	claimsWithin = time.Second
	claimsRetry  = 10 * time.Second
)

// genuine reports whether a checked claim can be true: it must name our topic, and its offset must
// exist. If the leader of the source is away, the topic is enough; else this partition would stop
// with it.
func (c *claims) genuine(topic string, f topics.Forward) bool {
	source := kafkapart.TopicPartition{Topic: topic, Partition: f.Partition}
	_, silent := c.silent[source]
	return f.TopicID == c.ids[topic] && (f.Offset < c.ends[source] || silent)
}

// timely reports whether a claim names a time that is near enough to when its copy was appended.
func timely(f topics.Forward, appended trigger.Instant) bool {
	return appended.Sub(f.Append) <= maxForwardAge && f.Append.Sub(appended) <= maxForwardAge
}

// claimed returns the claim of a record on partition id. ok is false if there is none, or
// if it is impossible; the record is a direct command then.
func claimed(rec *topics.Record, id, partitions int32) (f topics.Forward, ok bool) {
	f, ok, err := topics.Forwarded(rec)
	return f, err == nil && ok && f.Partition != id && f.Partition >= 0 && f.Partition < partitions
}

// unknown lists the source partitions whose ends must be known to judge these records.
func (c *claims) unknown(records []*kgo.Record) (sources []kafkapart.TopicPartition) {
	for _, r := range records {
		if _, ours := c.ids[r.Topic]; !ours || len(r.Headers) == 0 {
			continue
		}
		rec := kafkarec.With(r, c.headers[:0])
		c.headers = rec.Headers
		f, ok := claimed(&rec, c.id, c.opts.Partitions)
		source := kafkapart.TopicPartition{Topic: r.Topic, Partition: f.Partition}
		if !ok || f.TopicID != c.ids[r.Topic] || f.Offset < c.ends[source] {
			continue
		}
		if !time.Now().Before(c.silent[source]) && !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	slices.SortFunc(sources, kafkapart.TopicPartition.Compare)
	return sources
}

// learn stores the answers of sources.
func (c *claims) learn(sources []kafkapart.TopicPartition, ends map[kafkapart.TopicPartition]int64) {
	for _, source := range sources {
		end, ok := ends[source]
		if ok {
			c.ends[source] = end
			delete(c.silent, source)
		} else {
			c.silent[source] = time.Now().Add(claimsRetry)
		}
	}
}

// check asks what is needed to judge the claims of records, before the turn that applies them.
func (c *claims) check(ctx context.Context, records []*kgo.Record) {
	sources := c.unknown(records)
	if len(sources) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimsWithin)
	defer cancel()
	ends, missing := kafkapart.Ends(ctx, c.client, sources, kafkapart.ReadUncommitted)
	if len(missing) > 0 {
		c.log.Debug("source partitions do not answer; forwarded records are checked by topic id and age only",
			"why", missing)
	}
	c.learn(sources, ends)
}
