package kafkapart

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata asks for one topic.
func Metadata(ctx context.Context, cl *kgo.Client, topic string) (*kmsg.MetadataResponseTopic, error) {
	found, err := MetadataOf(ctx, cl, topic)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// MetadataOf asks for several topics at once, and answers in their order. It
// asks the brokers; kadm would answer from a cache.
func MetadataOf(ctx context.Context, cl *kgo.Client, topics ...string) ([]*kmsg.MetadataResponseTopic, error) {
	resp, err := metadataRequest(topics).RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("metadata of %s: %w", strings.Join(topics, ", "), err)
	}
	found := make([]*kmsg.MetadataResponseTopic, len(topics))
	for i, topic := range topics {
		at := slices.IndexFunc(resp.Topics, func(t kmsg.MetadataResponseTopic) bool {
			return t.Topic != nil && *t.Topic == topic
		})
		if at < 0 {
			return nil, fmt.Errorf("metadata of %s: empty answer", topic)
		}
		found[i] = &resp.Topics[at]
		if err := kerr.ErrorForCode(found[i].ErrorCode); err != nil {
			return nil, fmt.Errorf("metadata of %s: %w", topic, err)
		}
	}
	return found, nil
}

// Existing are those of the topics that the brokers have.
func Existing(ctx context.Context, cl *kgo.Client, topics ...string) (existing []string, err error) {
	resp, err := metadataRequest(topics).RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.Topics {
		if t.ErrorCode == 0 && len(t.Partitions) > 0 {
			existing = append(existing, *t.Topic)
		}
	}
	return existing, nil
}

func metadataRequest(topics []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// NameOf is the topic with an id; "" if there is none, or this user may not see it.
func NameOf(ctx context.Context, cl *kgo.Client, id [16]byte) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all: older brokers do not find topics by id
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return "", fmt.Errorf("metadata of all topics: %w", err)
	}
	for _, t := range resp.Topics {
		if t.TopicID == id && t.Topic != nil && t.ErrorCode == 0 {
			return *t.Topic, nil
		}
	}
	return "", nil
}

// LeaderOf is what metadata says of a partition; nil if the topic has no such.
func LeaderOf(t *kmsg.MetadataResponseTopic, partition int32) *kmsg.MetadataResponseTopicPartition {
	for i := range t.Partitions {
		if t.Partitions[i].Partition == partition {
			return &t.Partitions[i]
		}
	}
	return nil
}
