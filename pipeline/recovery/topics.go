package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// ErrPartitions says that topics have another number of partitions than the engine is
// configured for. Keys would hash elsewhere, so growing is a migration.
var ErrPartitions = errors.New("the number of partitions does not match")

// requestTimeout bounds a request whose duration does not depend on the amount of data.
const requestTimeout = 20 * time.Second

// Topics asks the brokers for commands, state, receipts and control. It refuses topics with
// another number of partitions.
func (c *Config) Topics(ctx context.Context, cl *kgo.Client) ([]*kmsg.MetadataResponseTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	names := []string{c.Names.Commands(), c.Names.State(), c.Names.Receipts(), c.Names.Control()}
	found, err := kafkapart.MetadataOf(ctx, cl, names...)
	if err != nil {
		return nil, err
	}
	for i, t := range found[:3] { // control has one partition
		if have := len(t.Partitions); have != int(c.Partitions) {
			return nil, fmt.Errorf("%w: topic %s has %d partitions, topics.partitions says %d; "+
				"keys would be routed to other partitions than their triggers",
				ErrPartitions, names[i], have, c.Partitions)
		}
	}
	return found, nil
}

// TopicIDs are the ids of the topics that we read. A topic that was deleted and made again has
// another id, and nothing in our store belongs to it.
type TopicIDs struct{ Commands, State, Receipts, Control [16]byte }

// IDsOf returns the ids of what Topics has found.
func IDsOf(own []*kmsg.MetadataResponseTopic) TopicIDs {
	commands, state, receipts, control := own[0], own[1], own[2], own[3]
	return TopicIDs{commands.TopicID, state.TopicID, receipts.TopicID, control.TopicID}
}
