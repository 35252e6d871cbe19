package dangling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// end ends a dangling transaction: it writes markers into partitions, with the producer's
// id and epoch.
func (r *Resolver) end(ctx context.Context, all []TopicPartition, commit bool) (refused []TopicPartition, err error) {
	id, epoch, err := r.Client.ProducerID(ctx)
	if err != nil {
		return nil, err
	}
	if refused, err = writeMarkers(ctx, r.Kafka, txn{r.TransactionalID, id, epoch}, all, commit); err != nil {
		return nil, fmt.Errorf("end dangling transactions: %w", err)
	}
	return refused, nil
}

// txn identifies a transaction.
type txn struct {
	id       string
	producer int64
	epoch    int16
}

// writeMarkers runs a transaction without records; its end writes a marker into every
// partition. kgo cannot do that. The brokers accept these requests only in older versions,
// which let the client name the epoch. Partitions that are gone, or that we may not write
// to, are refused.
func writeMarkers(
	ctx context.Context, kafka []kgo.Opt, of txn, all []TopicPartition, commit bool,
) (refused []TopicPartition, err error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	cl, err := kgo.NewClient(append(slices.Clone(kafka), kgo.MaxVersions(versions), kgo.DisableClientMetrics())...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for { // until no partition is refused
		var not []TopicPartition
		if err := kafkapart.Retry(ctx, stillEnding, func() (err error) {
			not, err = addToTxn(ctx, cl, of, all)
			return err
		}); err != nil {
			return nil, err
		}
		if len(not) == 0 {
			break
		}
		refused = append(refused, not...)
		all = slices.DeleteFunc(slices.Clone(all), func(at TopicPartition) bool {
			return slices.Contains(not, at)
		})
		if len(all) == 0 {
			return refused, nil
		}
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = of.id, of.producer, of.epoch, commit
	return refused, kafkapart.Retry(ctx, stillEnding, func() error {
		resp, err := end.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// addToTxn adds partitions to a transaction; none if some are refused.
func addToTxn(
	ctx context.Context, cl *kgo.Client, of txn, all []TopicPartition,
) (refused []TopicPartition, err error) {
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = of.id, of.producer, of.epoch
	kafkapart.EachTopic(all, func(topic string, partitions []int32) {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		add.Topics = append(add.Topics, t)
	})
	resp, err := add.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			switch err := kerr.ErrorForCode(p.ErrorCode); {
			case err == nil, errors.Is(err, kerr.OperationNotAttempted):
			case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.UnknownTopicOrPartition):
				refused = append(refused, TopicPartition{Topic: t.Topic, Partition: p.Partition})
			default:
				return nil, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return refused, nil
}

// stillEnding reports that the last transaction is still being ended.
func stillEnding(err error) bool { return errors.Is(err, kerr.ConcurrentTransactions) }
