package kafkapart

import (
	"cmp"
	"strings"
)

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Compare orders by topic, then by partition.
func (p TopicPartition) Compare(o TopicPartition) int {
	return cmp.Or(strings.Compare(p.Topic, o.Topic), cmp.Compare(p.Partition, o.Partition))
}

// EachTopic calls f for every topic with its partitions. Those of one topic
// stand together.
func EachTopic(all []TopicPartition, f func(topic string, partitions []int32)) {
	for len(all) > 0 {
		topic := all[0].Topic
		var partitions []int32
		for len(all) > 0 && all[0].Topic == topic {
			partitions = append(partitions, all[0].Partition)
			all = all[1:]
		}
		f(topic, partitions)
	}
}
