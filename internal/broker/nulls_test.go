package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestNoNullArrays: Kafka's Java client cannot read null where Kafka never answers it.
func TestNoNullArrays(t *testing.T) {
	t.Parallel()
	cl := client(t, start(t, t.TempDir()))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "x", NumPartitions: 2, ReplicationFactor: 1}}
	made, err := create.RequestWith(t.Context(), cl)
	if err != nil || len(made.Topics) != 1 || made.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	if made.Topics[0].Configs == nil {
		t.Error("the configs of a created topic are null")
	}
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 100
	describe.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "x"}}
	found, err := describe.RequestWith(t.Context(), cl)
	if err != nil || len(found.Topics) != 1 || len(found.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, p := range found.Topics[0].Partitions {
		if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
			t.Errorf("partition %d: eligible %v, last known %v", p.Partition, p.EligibleLeaderReplicas, p.LastKnownELR)
		}
	}
}
