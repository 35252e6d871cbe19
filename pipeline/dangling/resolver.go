package dangling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// Config is what a Resolver of one partition needs.
type Config struct {
	Client          *kgo.Client // the partition's producer
	Reader          *kafkapart.Reader
	Kafka           []kgo.Opt // how to reach the brokers
	TransactionalID string
	State           TopicPartition   // where its turns write progress
	Own             []TopicPartition // what its turns write to, beside due topics
	Due             func(context.Context) ([]TopicPartition, error)
	IsDue           func(topic string) bool
	Log             *slog.Logger
}

// Resolver ends what the last owner's transaction left open.
type Resolver struct{ Config }

// Resolve runs after InitProducerId, so no other process can end what is open. It runs
// before the first record of the new owner, which could commit aborted records. It leaves
// due topics that do not answer to the watcher.
func (r *Resolver) Resolve(
	ctx context.Context, how Ending, before map[TopicPartition]Ending,
) (unresolved map[TopicPartition]Ending, err error) {
	m := NewResolution(how, before, r.IsDue, r.Log.Warn)
	for m.Next().Do != Done {
		if err := r.do(ctx, m, m.Next()); err != nil {
			return nil, err
		}
	}
	return m.Unresolved(), nil
}

// do runs one step and reports the answer.
func (r *Resolver) do(ctx context.Context, m *Resolution, step Step) error {
	switch step.Do {
	case Inspect:
		left, err := r.inspectAll(ctx)
		if err != nil {
			return err
		}
		return m.Inspected(left)
	case FindEnding:
		how, err := r.findEnding(ctx, step.At)
		if err != nil {
			return err
		}
		return m.Found(how)
	case End:
		refused, err := r.end(ctx, step.At, step.How == Committed)
		if err != nil {
			return err
		}
		return m.Ended(refused)
	case Check:
		left, err := r.inspect(ctx, step.At, openWithin)
		if err != nil {
			return err
		}
		return m.Checked(left)
	}
	panic("dangling: no step is called " + string(step.Do))
}

// dueWithin is how long due topics may take to answer. They must not keep the others from
// firing.
const dueWithin = 3 * time.Second

// inspectAll searches everywhere for what the partition's producer left open.
func (r *Resolver) inspectAll(ctx context.Context) (left Leftover, err error) {
	due, err := r.Due(ctx)
	if err != nil {
		return left, err
	}
	beside := make(chan Leftover)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, dueWithin)
		defer cancel()
		left, err := r.inspect(ctx, due, openWithin)
		if err != nil {
			left = unknownAll(due, err)
		}
		beside <- left
	}()
	left, err = r.inspect(ctx, r.Own, openWithin)
	ofDue := <-beside
	if err != nil {
		return left, err
	}
	left.Ours, left.Perhaps = append(left.Ours, ofDue.Ours...), append(left.Perhaps, ofDue.Perhaps...)
	maps.Copy(left.Unknown, ofDue.Unknown)
	return left, nil
}

func unknownAll(all []TopicPartition, err error) Leftover {
	left := Leftover{Unknown: map[TopicPartition]error{}}
	for _, at := range all {
		left.Unknown[at] = err
	}
	return left
}

// findEnding finds the ending in topic state. The brokers forgot it, because an earlier
// opening was interrupted. Progress is the last record of a turn: if it is there, the turn
// was complete and may have been committed.
func (r *Resolver) findEnding(ctx context.Context, open []TopicPartition) (Ending, error) {
	if !slices.Contains(open, r.State) {
		return Aborted, nil
	}
	stable, missing := kafkapart.Ends(ctx, r.Client, []TopicPartition{r.State}, kafkapart.ReadCommitted)
	if err := missing[r.State]; err != nil {
		return "", err
	}
	for next := stable[r.State]; ; {
		answer, err := r.Reader.Fetch(ctx, r.State, next, kafkapart.ReadUncommitted)
		if err != nil || answer == nil {
			return "", fmt.Errorf("read the end of topic state: %w", errors.Join(err, kerr.LeaderNotAvailable))
		}
		read, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: next, Topic: r.State.Topic, Partition: r.State.Partition,
		}, answer, r.Reader.Decompressor(), nil)
		if read.Err != nil {
			return "", &kafkapart.FetchError{At: r.State, Err: read.Err}
		}
		for _, rec := range read.Records {
			if bytes.Equal(rec.Key, topics.KeyProgress) {
				return Committed, nil
			}
		}
		if after <= next {
			return Aborted, nil
		}
		next = after
	}
}
