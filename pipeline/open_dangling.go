package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/dangling"
)

// resolver ends what the owner before us has left open, and says what is ours.
func (p *Partition) resolver() *dangling.Resolver {
	var own []kafkapart.TopicPartition
	n := p.opts.Names
	for _, topic := range []string{n.State(), n.Events(), n.DeadLetter(), n.Rejected()} {
		own = append(own, kafkapart.TopicPartition{Topic: topic, Partition: p.id})
	}
	return &dangling.Resolver{Config: dangling.Config{
		Client: p.kafka.cl, Reader: p.kafka.reader, Kafka: p.opts.Kafka, TransactionalID: p.opts.transactionalID(p.id),
		State: p.state(), Own: own, Due: p.writtenByAll, IsDue: p.dueTopics.IsDue, Log: p.log,
	}}
}

// describeLast asks how the last owner's transaction ended, beside what else is
// done.
func (p *Partition) describeLast(ctx context.Context) <-chan dangling.Last {
	answer := make(chan dangling.Last, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, openStep)
		defer cancel()
		answer <- dangling.Describe(ctx, p.kafka.cl, p.opts.transactionalID(p.id))
	}()
	return answer
}

// writtenByAll are the partitions of due topics that any owner of ours may have
// written to.
func (p *Partition) writtenByAll(ctx context.Context) (all []kafkapart.TopicPartition, err error) {
	due, err := p.dueTopics.All(ctx)
	for i := range due {
		all = append(all, due[i].WrittenBy(p.id)...)
	}
	return all, err
}

// written are the partitions that this session's turns may have written to.
func (p *Partition) written() (all []kafkapart.TopicPartition) {
	for _, topic := range slices.Sorted(maps.Keys(p.kafka.met)) {
		all = append(all, p.dueTopics.WrittenBy(topic, p.id)...)
	}
	return all
}
