package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/dangling"
)

// resolver ends the transaction that the last owner left open.
func (o *opening) resolver() *dangling.Resolver {
	var own []kafkapart.TopicPartition
	n := o.opts.Names
	for _, topic := range []string{n.State(), n.Events(), n.DeadLetter(), n.Rejected()} {
		own = append(own, kafkapart.TopicPartition{Topic: topic, Partition: o.id})
	}
	return &dangling.Resolver{Config: dangling.Config{
		Client: o.kafka.cl, Reader: o.kafka.reader, Kafka: o.opts.Kafka, TransactionalID: o.opts.transactionalID(o.id),
		State: o.state(), Own: own, Due: o.writtenByAll, IsDue: o.dueTopics.Spares, Log: o.log,
	}}
}

// describeLast asks in the background how the last owner's transaction ended.
func (o *opening) describeLast(ctx context.Context) <-chan dangling.Last {
	answer := make(chan dangling.Last, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, openStep)
		defer cancel()
		answer <- dangling.Describe(ctx, o.kafka.cl, o.opts.transactionalID(o.id))
	}()
	return answer
}

// writtenByAll lists the partitions of due topics and of watermarks that any owner of this
// partition may have written to. The last owner must be fenced: it may have made a topic just
// before.
func (o *opening) writtenByAll(ctx context.Context) (all []kafkapart.TopicPartition, err error) {
	due, err := o.dueTopics.All(ctx, o.fenced)
	all = append(all, kafkapart.TopicPartition{Topic: o.opts.Names.Watermarks(), Partition: o.id})
	for i := range due {
		all = append(all, due[i].WrittenBy(o.id)...)
	}
	return all, err
}

// written lists the partitions that the turns of this session may have written to.
func (p *Partition) written() (all []kafkapart.TopicPartition) {
	for _, topic := range slices.Sorted(maps.Keys(p.kafka.met)) {
		all = append(all, p.dueTopics.WrittenBy(topic, p.id)...)
	}
	return all
}
