package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// Config configures the due topics of a process.
type Config struct {
	Kafka       []kgo.Opt // how to reach the brokers
	Names       topics.Names
	Partitions  int32           // of a due topic, unless it is partitioned by key
	Manage      bool            // create missing topics
	Replication int16           // of created topics; -1 the broker's default
	ByKey       map[string]bool // topics of configured channels; true: any number of partitions
	Logger      *slog.Logger
}

// Topics makes sure that a due topic exists and has enough partitions before a record goes
// there. One record for a missing topic would fail a whole turn. The partitions of a
// process share one Topics.
type Topics struct {
	Config
	Sizes *Sizes

	cl  *kgo.Client
	adm *kadm.Client

	mu    sync.RWMutex
	known map[string]int32 // Count of the topics that are correct

	listing chan struct{} // held while topics are listed
	listed  []Topic       // as of asked
	asked   time.Time     // zero: never
}

// New uses a client that is connected already.
func New(c Config, cl *kgo.Client) *Topics {
	adm := kadm.NewClient(cl)
	return &Topics{
		Config: c, Sizes: newSizes(adm), cl: cl, adm: adm, known: map[string]int32{},
		listing: make(chan struct{}, 1),
	}
}

// Topic is a topic that may hold due events.
type Topic struct {
	Name       string
	Partitions int32
	ByKey      bool
}

// WrittenBy lists the partitions of a topic that the turns of an engine partition may write
// to.
func (t *Topic) WrittenBy(partition int32) []kafkapart.TopicPartition {
	if !t.ByKey {
		return []kafkapart.TopicPartition{{Topic: t.Name, Partition: partition}}
	}
	all := make([]kafkapart.TopicPartition, t.Partitions)
	for i := range all {
		all[i] = kafkapart.TopicPartition{Topic: t.Name, Partition: int32(i)}
	}
	return all
}

// IsDue reports whether a topic is not one of our own. Records for our own topics must
// never be put off.
func (d *Topics) IsDue(topic string) bool {
	n := d.Names
	switch topic {
	case n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Commands(), n.Receipts(), n.Watermarks():
		return false
	}
	return true
}

// Spares reports whether turns can go on without a topic: the due topics, whose triggers wait,
// and watermarks.
func (d *Topics) Spares(topic string) bool { return d.IsDue(topic) || topic == d.Names.Watermarks() }

// requestTimeout bounds how long one question about a topic may delay a turn.
const requestTimeout = 2 * time.Second

// Ensure finds a topic, or creates it. byKey allows any number of partitions. After a
// success it costs a map lookup.
func (d *Topics) Ensure(ctx context.Context, name string, byKey bool) (partitions int32, err error) {
	d.mu.RLock()
	n := d.known[name]
	d.mu.RUnlock()
	if n > 0 {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if n, err = d.count(ctx, name); err != nil {
		return 0, err
	}
	if n == 0 {
		if n, err = d.create(ctx, name); err != nil {
			return 0, err
		}
	}
	if n < d.Partitions && !byKey {
		return 0, fmt.Errorf("topic %s has %d partitions, but %d are needed: create a new one, or set partitioning: "+
			"by_key for the channel", name, n, d.Partitions)
	}
	if err := d.Sizes.Learn(ctx, SizesFor, name); err != nil {
		d.Logger.Debug("the size limit of a topic is not known; using Kafka's default", "topic", name, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[name] = n
	return n, nil
}

// Knows reports whether Ensure has found a topic and would not ask.
func (d *Topics) Knows(name string) bool { return d.Count(name) > 0 }

// Count is the number of partitions of a topic; 0 if Ensure has not found it.
func (d *Topics) Count(name string) int32 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.known[name]
}

func (d *Topics) create(ctx context.Context, name string) (int32, error) {
	if !d.Manage {
		return 0, fmt.Errorf("topic %s does not exist, and topics.manage is off: create it with %d partitions",
			name, d.Partitions)
	}
	spec := topics.DueTopic(name, d.Partitions, d.Replication)
	configs := make(map[string]*string, len(spec.Configs))
	for k, v := range spec.Configs {
		configs[k] = &v
	}
	_, err := d.adm.CreateTopic(ctx, spec.Partitions, d.Replication, configs, name)
	for range 10 {
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			break
		}
		if n, err := d.count(ctx, name); err != nil || n > 0 {
			return n, err // another engine created it first
		}
		wait.For(ctx, 20*time.Millisecond) // our broker has not learned of it yet
	}
	if err != nil {
		return 0, fmt.Errorf("create topic %s: %w", name, err)
	}
	return spec.Partitions, nil
}

// count asks the brokers for the number of partitions of a topic; 0 if it does not exist.
// kadm would answer from a cache that is seconds old, and miss a topic that another engine
// has just created.
func (d *Topics) count(ctx context.Context, name string) (int32, error) {
	t, err := kafkapart.Metadata(ctx, d.cl, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int32(len(t.Partitions)), nil
}

// WrittenBy lists the partitions of a topic, also of our own, that an engine partition's
// turns may write to.
func (d *Topics) WrittenBy(name string, partition int32) []kafkapart.TopicPartition {
	d.mu.RLock()
	t := Topic{name, d.known[name], d.ByKey[name]}
	d.mu.RUnlock()
	return t.WrittenBy(partition)
}

// CheckLeaders fails unless a partition of a topic has a leader; with byKey, all
// partitions.
func (d *Topics) CheckLeaders(ctx context.Context, name string, partition int32, byKey bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	t, err := kafkapart.Metadata(ctx, d.cl, name)
	if err != nil {
		return err
	}
	for _, p := range t.Partitions {
		if p.Leader < 0 && (byKey || p.Partition == partition) {
			return fmt.Errorf("%s/%d: %w", name, p.Partition, kerr.LeaderNotAvailable)
		}
	}
	return nil
}

// Forget makes the next Ensure ask the brokers.
func (d *Topics) Forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
}

// listTimeout bounds the request for all topics.
const listTimeout = 20 * time.Second

// All lists the due topics: those of configured channels, and every topic that is named
// like a channel's. The brokers were asked at since or later. While one partition asks, the
// others wait, so that one answer serves many that open together.
func (d *Topics) All(ctx context.Context, since time.Time) ([]Topic, error) {
	select {
	case d.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.listing }()
	if !d.asked.IsZero() && !d.asked.Before(since) {
		return d.listed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	// A client of its own, because a client keeps what it learns: 20 MB for 50,000
	// partitions.
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.DisableClientMetrics()}, d.Kafka...)...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	asked := time.Now()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl) // an empty list means all topics
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	d.listed, d.asked = d.dueTopics(resp.Topics), asked
	return d.listed, nil
}

// dueTopics selects the due topics of an answer. One that comes with an error is among them: who asks
// for its partitions then finds that they are not known.
func (d *Topics) dueTopics(all []kmsg.MetadataResponseTopic) (due []Topic) {
	for _, t := range all {
		if t.Topic == nil || errors.Is(kerr.ErrorForCode(t.ErrorCode), kerr.UnknownTopicOrPartition) {
			continue
		}
		byKey, ours := d.ByKey[*t.Topic]
		if ours || d.Names.Channel(*t.Topic) != "" {
			due = append(due, Topic{*t.Topic, max(int32(len(t.Partitions)), 1), byKey})
		}
	}
	return due
}
