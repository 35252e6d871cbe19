package pipeline

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/topics"
)

// dueTopics makes sure that a channel's topic exists before the first record
// goes to it, and knows its partitions where by_key needs them. One for the
// process, shared by its partitions.
type dueTopics struct {
	opts *Options
	adm  *kadm.Client

	mu         sync.Mutex
	partitions map[string]int32
}

func newDueTopics(o *Options, adm *kadm.Client) *dueTopics {
	return &dueTopics{opts: o, adm: adm, partitions: map[string]int32{}}
}

// ensure creates a topic that does not exist. A failure is not the caller's:
// the records will be refused, and wait.
func (d *dueTopics) ensure(ctx context.Context, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.partitions[name] > 0 {
		return nil
	}
	if n, err := d.count(ctx, name); err != nil || n > 0 {
		d.partitions[name] = n
		return err
	}
	if !d.opts.ManageTopics {
		return fmt.Errorf("topic %s does not exist, and topics.manage is off: create it with %d partitions", name, d.opts.Partitions)
	}
	spec := topics.DueTopic(name, d.opts.Partitions, d.opts.Replication)
	configs := make(map[string]*string, len(spec.Configs))
	for k, v := range spec.Configs {
		configs[k] = &v
	}
	if _, err := d.adm.CreateTopic(ctx, spec.Partitions, d.opts.Replication, configs, name); err != nil {
		if n, again := d.count(ctx, name); again != nil || n == 0 {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	d.partitions[name] = spec.Partitions
	return nil
}

func (d *dueTopics) count(ctx context.Context, name string) (int32, error) {
	details, err := d.adm.ListTopics(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("metadata of %s: %w", name, err)
	}
	detail, ok := details[name]
	if !ok || detail.Err != nil {
		return 0, nil
	}
	return int32(len(detail.Partitions)), nil
}

// forget makes the next ensure look again.
func (d *dueTopics) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.partitions, name)
}

// partitionOf is where a key goes on a topic with partitioning by_key.
func (d *dueTopics) partitionOf(name string, key []byte, fallback int32) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.partitions[name]; n > 0 {
		return topics.Partition(key, n)
	}
	return fallback
}
