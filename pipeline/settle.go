package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/waterclock/waterclock/topics"
)

// A transaction that has ended may have been left open in some partitions.
// Kafka 4.3.1 leaves a partition out when it has no leader at the moment its
// marker is to be written (TransactionMarkerChannelManager takes it for
// deleted): in a cluster of one broker that is every transaction that was open
// when the broker was killed. What lies there has no end, and takes the
// next one of the same producer: the first turn that commits would make true
// what was aborted, a trigger that fires a second time; and until then nobody
// sees what was committed. So whoever opens a partition asks how the last
// transaction ended, looks for what it has left open, and ends that likewise.

// ending is how the last transaction of a partition's owner ended.
type ending string

const (
	neverBegun ending = "never begun"
	committed  ending = "committed"
	aborted    ending = "aborted"
	forgotten  ending = "forgotten" // an owner after that one has begun to open the partition
)

// lastEnding asks how the last transaction ended, or would if it were ended
// by InitProducerId. That forgets it, so it is asked before.
func (s *session) lastEnding(ctx context.Context, id string) (ending, error) {
	var how ending
	err := again(ctx, kerr.IsRetriable, func() (err error) { // such as a coordinator that is still loading
		how, err = s.describe(ctx, id)
		return err
	})
	return how, err
}

func (s *session) describe(ctx context.Context, id string) (ending, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return "", fmt.Errorf("describe transaction %s: %w", id, err)
	}
	for _, t := range resp.TransactionStates {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TransactionalIDNotFound):
			return neverBegun, nil
		case err != nil:
			return "", fmt.Errorf("describe transaction %s: %w", id, err)
		}
		switch t.State {
		case "PrepareCommit", "CompleteCommit":
			return committed, nil
		case "Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence":
			return aborted, nil
		}
		return forgotten, nil
	}
	return "", fmt.Errorf("describe transaction %s: empty answer", id)
}

// learned is the answer to how the last transaction ended.
type learned struct {
	how ending
	err error
}

// learnEnding asks how the last owner's transaction ended, beside what else is
// done.
func (p *Partition) learnEnding(ctx context.Context) <-chan learned {
	answer := make(chan learned, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, openStep)
		defer cancel()
		how, err := p.kafka.lastEnding(ctx, p.opts.transactionalID(p.id))
		answer <- learned{how, err}
	}()
	return answer
}

// settle ends what the last owner's transaction has left open. It comes after
// InitProducerId, so nobody else can end it, and before the nonce, which must
// not make true what was aborted.
func (p *Partition) settle(ctx context.Context) error {
	if p.own.ended == neverBegun {
		return nil
	}
	left, err := p.leftByUs(ctx, openLooks)
	if err != nil {
		return err
	}
	for at, err := range left.unknown {
		if !p.isDueTopic(at.topic) {
			return fmt.Errorf("where %s/%d ends: %w", at.topic, at.partition, err)
		}
		p.log.Warn("nobody says whether a transaction was left open in a due topic", "topic", at.topic, "its_partition", at.partition, "error", err)
	}
	open := left.all()
	if len(open) == 0 {
		return nil
	}
	how := p.own.ended
	if how == forgotten {
		if how, err = p.tellEnding(ctx, open); err != nil {
			return err
		}
	}
	return p.endOpen(ctx, open, how)
}

// written are the partitions that turns write to: our own, and those of every
// topic that may be a channel's.
func (p *Partition) written(ctx context.Context) ([]place, error) {
	n := p.opts.Names
	places := []place{{n.State(), p.id}, {n.Events(), p.id}, {n.DeadLetter(), p.id}}
	due, err := p.dueTopics.all(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range due {
		if !t.byKey {
			places = append(places, place{t.name, p.id})
			continue
		}
		for i := range t.partitions {
			places = append(places, place{t.name, i})
		}
	}
	return places, nil
}

// How often it is asked whether something is still open, at least: what others
// write to a shared partition, or what is just being ended, is not for long.
const (
	openLooks = 6
	openPause = 20 * time.Millisecond
)

// leftByUs looks everywhere for what the partition's producer has left open.
func (p *Partition) leftByUs(ctx context.Context, looks int) (leftover, error) {
	places, err := p.written(ctx)
	if err != nil {
		return leftover{}, err
	}
	producer, _, err := p.kafka.cl.ProducerID(ctx)
	if err != nil {
		return leftover{}, err
	}
	return p.kafka.leftOpen(ctx, producer, places, looks)
}

// leftover is where transactions are open that nobody seems to end.
type leftover struct {
	ours    []place         // one of our producer
	perhaps []place         // whose it is we may not ask, which needs READ
	unknown map[place]error // no answer
}

func (l *leftover) all() []place { return slices.Concat(l.ours, l.perhaps) }

// leftOpen looks for what a producer has left open. A partition that is not
// there has nothing open.
func (s *session) leftOpen(ctx context.Context, producer int64, places []place, looks int) (left leftover, err error) {
	var stable map[place]int64
	var unstable map[place]error
	beside := make(chan struct{})
	go func() { defer close(beside); stable, unstable = s.endsOf(ctx, places, readCommitted) }()
	ends, unknown := s.endsOf(ctx, places, readUncommitted)
	<-beside
	open := slices.DeleteFunc(slices.Clone(places), func(at place) bool { return unknown[at] != nil })
	for look := 0; ; look++ {
		open = slices.DeleteFunc(open, func(at place) bool { end, ok := stable[at]; return ok && end >= ends[at] })
		if len(open) == 0 || look == looks {
			break
		}
		if sleep(ctx, openPause); ctx.Err() != nil {
			return leftover{}, ctx.Err()
		}
		stable, unstable = s.endsOf(ctx, open, readCommitted)
	}
	maps.Copy(unknown, unstable) // of the last look
	open = slices.DeleteFunc(open, func(at place) bool { return unknown[at] != nil })
	maps.DeleteFunc(unknown, func(_ place, err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) })
	left.unknown = unknown
	return left, s.tellOurs(ctx, producer, open, ends, &left)
}

// tellOurs tells what is ours of what is open from what is others', who may
// write to a channel's topic, too, for as long as they like. What was begun
// after the ends were asked for is a turn that is under way.
func (s *session) tellOurs(ctx context.Context, producer int64, open []place, ends map[place]int64, left *leftover) error {
	if len(open) == 0 {
		return nil
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	eachTopic(open, func(topic string, partitions []int32) {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	})
	answers := map[place]kmsg.DescribeProducersResponseTopicPartition{}
	for _, shard := range s.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return fmt.Errorf("describe producers: %w", shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				answers[place{t.Topic, p.Partition}] = p
			}
		}
	}
	for _, at := range open {
		answer, ok := answers[at]
		err := kerr.ErrorForCode(answer.ErrorCode)
		switch {
		case !ok:
			left.unknown[at] = errNoAnswer
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			left.perhaps = append(left.perhaps, at)
		case err != nil:
			left.unknown[at] = err
		case slices.ContainsFunc(answer.ActiveProducers, func(p kmsg.DescribeProducersResponseTopicPartitionActiveProducer) bool {
			return p.ProducerID == producer && p.CurrentTxnStartOffset >= 0 && p.CurrentTxnStartOffset < ends[at]
		}):
			left.ours = append(left.ours, at)
		}
	}
	return nil
}

// tellEnding decides what nobody remembers, as an opening before ours was
// broken off: progress is the last record of a turn, so if it is there, the turn
// was complete, and may have been committed.
func (p *Partition) tellEnding(ctx context.Context, open []place) (ending, error) {
	state := place{p.names.state, p.id}
	if !slices.Contains(open, state) {
		return aborted, nil
	}
	stable, missing := p.kafka.endsOf(ctx, []place{state}, readCommitted)
	if err := missing[state]; err != nil {
		return "", err
	}
	for next := stable[state]; ; {
		answer, err := p.kafka.look(ctx, state.topic, state.partition, next, readUncommitted)
		if err != nil || answer == nil {
			return "", fmt.Errorf("read what topic state is left with: %w", errors.Join(err, kerr.LeaderNotAvailable))
		}
		read, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: next, Topic: state.topic, Partition: state.partition}, answer, kgo.DefaultDecompressor(), nil)
		if read.Err != nil {
			return "", &fetchError{state.topic, state.partition, read.Err}
		}
		for _, r := range read.Records {
			if bytes.Equal(r.Key, topics.KeyProgress) {
				return committed, nil
			}
		}
		if after <= next {
			return aborted, nil
		}
		next = after
	}
}

// endOpen ends what is open, and sees to it that it is.
func (p *Partition) endOpen(ctx context.Context, open []place, how ending) error {
	p.log.Warn("a transaction was left open; ending what is ours in it", "how", string(how), "where", fmt.Sprint(open))
	producer, epoch, err := p.kafka.cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	for len(open) > 0 {
		if err := endAgain(ctx, p.opts, p.opts.transactionalID(p.id), producer, epoch, open, how == committed); err != nil {
			return fmt.Errorf("end what was left open: %w", err)
		}
		left, err := p.kafka.leftOpen(ctx, producer, open, openLooks)
		if err != nil {
			return err
		}
		for at, err := range left.unknown { // its leader may have gone before the marker came
			return fmt.Errorf("whether %s/%d is ended: %w", at.topic, at.partition, err)
		}
		if len(left.perhaps) > 0 {
			p.log.Warn("a transaction is open in a topic that the engine may not read; after its own was ended it is taken for somebody else's", "where", fmt.Sprint(left.perhaps))
		}
		open = left.ours
	}
	return nil
}

// endAgain writes markers into partitions: a transaction without a record. kgo
// has none, and the brokers take its requests only in their older versions,
// which leave the producer's epoch to kgo.
func endAgain(ctx context.Context, o *Options, txn string, id int64, epoch int16, places []place, commit bool) error {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	cl, err := kgo.NewClient(append(slices.Clone(o.Kafka), kgo.MaxVersions(versions), kgo.DisableClientMetrics())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = txn, id, epoch
	eachTopic(places, func(topic string, partitions []int32) {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		add.Topics = append(add.Topics, t)
	})
	if err := again(ctx, stillEnding, func() error {
		resp, err := add.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && !errors.Is(err, kerr.OperationNotAttempted) {
					return fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = txn, id, epoch, commit
	return again(ctx, stillEnding, func() error {
		resp, err := end.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// stillEnding says that the transaction before is still being ended.
func stillEnding(err error) bool { return errors.Is(err, kerr.ConcurrentTransactions) }

// again tries until it succeeds, or fails in a way that trying does not cure.
func again(ctx context.Context, cures func(error) bool, try func() error) error {
	for pause := lookPause; ; pause = min(2*pause, mostLookPause) {
		err := try()
		if !cures(err) {
			return err
		}
		if sleep(ctx, pause); ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
