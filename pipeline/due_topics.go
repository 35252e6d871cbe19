package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// dueTopics makes sure that a due topic exists, and has enough partitions,
// before a record goes to it: one record for a topic that is not there would
// fail a whole turn. One for the process, shared by its partitions.
type dueTopics struct {
	opts *Options
	adm  *kadm.Client

	mu    sync.RWMutex
	known map[string]int32 // partitions of topics that are as they must be

	sizes  *topicSizes
	asking atomic.Bool // what a topic takes

	byKey map[string]bool // topics configured; true: of any partition

	listing chan struct{} // held by who lists
	listed  []dueTopic    // as of at
	at      time.Time
	stale   atomic.Bool // there are more
}

// dueTopic is a topic that due events may lie in.
type dueTopic struct {
	name       string
	partitions int32
	byKey      bool
}

// places are the partitions that a partition's turns may write to.
func (t *dueTopic) places(partition int32) []kafkapart.TopicPartition {
	if !t.byKey {
		return []kafkapart.TopicPartition{{Topic: t.name, Partition: partition}}
	}
	all := make([]kafkapart.TopicPartition, t.partitions)
	for i := range all {
		all[i] = kafkapart.TopicPartition{Topic: t.name, Partition: int32(i)}
	}
	return all
}

// ensureWithin bounds what one look at a topic may take out of a turn.
const ensureWithin = 2 * time.Second

func newDueTopics(o *Options, adm *kadm.Client) *dueTopics {
	d := &dueTopics{opts: o, adm: adm, sizes: newTopicSizes(adm), known: map[string]int32{}, byKey: map[string]bool{}, listing: make(chan struct{}, 1)}
	for _, channel := range o.Channels.Configured() {
		s := o.Channels.Settings(channel)
		d.byKey[s.Topic] = d.byKey[s.Topic] || s.ByKey
		if s.HighLane {
			lane := topics.HighLane(s.Topic)
			d.byKey[lane] = d.byKey[lane] || s.ByKey
		}
	}
	return d
}

// ensure finds a topic, or creates it. byKey says that any number of
// partitions will do. It costs a map look-up once it has succeeded.
func (d *dueTopics) ensure(ctx context.Context, name string, byKey bool) (partitions int32, err error) {
	d.mu.RLock()
	n := d.known[name]
	d.mu.RUnlock()
	if n > 0 {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ensureWithin)
	defer cancel()
	if n, err = d.count(ctx, name); err != nil {
		return 0, err
	}
	if n == 0 {
		if n, err = d.create(ctx, name); err != nil {
			return 0, err
		}
	}
	if n < d.opts.Partitions && !byKey {
		return 0, fmt.Errorf("topic %s has %d partitions, but %d are needed: make a new one, or set partitioning: by_key for the channel", name, n, d.opts.Partitions)
	}
	if err := d.sizes.learn(ctx, sizesFor, name); err != nil {
		d.opts.Logger.Debug("what a topic takes is not known; going by Kafka's default", "topic", name, "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[name] = n
	d.stale.Store(true)
	return n, nil
}

// knows says that ensure has found a topic, and would not ask again.
func (d *dueTopics) knows(name string) bool { return d.partitions(name) > 0 }

// partitions is how many a topic has; 0 if ensure has not found it.
func (d *dueTopics) partitions(name string) int32 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.known[name]
}

func (d *dueTopics) create(ctx context.Context, name string) (int32, error) {
	if !d.opts.ManageTopics {
		return 0, fmt.Errorf("topic %s does not exist, and topics.manage is off: create it with %d partitions", name, d.opts.Partitions)
	}
	spec := topics.DueTopic(name, d.opts.Partitions, d.opts.Replication)
	configs := make(map[string]*string, len(spec.Configs))
	for k, v := range spec.Configs {
		configs[k] = &v
	}
	_, err := d.adm.CreateTopic(ctx, spec.Partitions, d.opts.Replication, configs, name)
	for range 10 {
		if !errors.Is(err, kerr.TopicAlreadyExists) {
			break
		}
		if n, again := d.count(ctx, name); again != nil || n > 0 {
			return n, again // another partition's engine was first
		}
		wait.For(ctx, 20*time.Millisecond) // and the broker we ask has not heard yet
	}
	if err != nil {
		return 0, fmt.Errorf("create topic %s: %w", name, err)
	}
	return spec.Partitions, nil
}

// count is how many partitions a topic has, 0 without such a topic. It asks the
// brokers: kadm would answer from what it heard seconds ago, when somebody else
// had not yet created the topic.
func (d *dueTopics) count(ctx context.Context, name string) (int32, error) {
	t, err := kafkapart.Metadata(ctx, d.opts.asker, name)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int32(len(t.Partitions)), nil
}

// placesOf are the partitions of a topic that a partition's turns may write to;
// own topics among them.
func (d *dueTopics) placesOf(name string, partition int32) []kafkapart.TopicPartition {
	d.mu.RLock()
	t := dueTopic{name, d.known[name], d.byKey[name]}
	d.mu.RUnlock()
	return t.places(partition)
}

// led fails unless a partition of a topic has a leader; byKey asks for all.
func (d *dueTopics) led(ctx context.Context, name string, partition int32, byKey bool) error {
	ctx, cancel := context.WithTimeout(ctx, ensureWithin)
	defer cancel()
	t, err := kafkapart.Metadata(ctx, d.opts.asker, name)
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

// forget makes the next ensure look again.
func (d *dueTopics) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, name)
}

// listFor is how long a list of all due topics serves: the partitions that a
// node opens together ask for it once.
const listFor = 10 * time.Second

// all lists the due topics there are: those of the channels configured, and
// every one that is called like a channel's.
func (d *dueTopics) all(ctx context.Context) ([]dueTopic, error) {
	select {
	case d.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.listing }()
	if !d.stale.Swap(false) && time.Since(d.at) < listFor {
		return d.listed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.DisableClientMetrics()}, d.opts.Kafka...)...) // what a client hears it keeps: 20 MB of 50,000 partitions
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl) // no topics: all
	if err != nil {
		d.stale.Store(true)
		return nil, fmt.Errorf("list topics: %w", err)
	}
	d.listed = nil
	for _, t := range resp.Topics {
		if t.Topic == nil || t.ErrorCode != 0 {
			continue
		}
		byKey, ours := d.byKey[*t.Topic]
		if ours || d.opts.Names.Channel(*t.Topic) != "" {
			d.listed = append(d.listed, dueTopic{*t.Topic, int32(len(t.Partitions)), byKey})
		}
	}
	d.at = time.Now()
	return d.listed, nil
}
