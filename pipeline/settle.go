package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
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

// learned is the answer to how the last transaction ended, and whose it was.
type learned struct {
	how      ending
	producer int64
	epoch    int16
	err      error
}

// learnEnding asks how the last owner's transaction ended, beside what else is
// done.
func (p *Partition) learnEnding(ctx context.Context) <-chan learned {
	answer := make(chan learned, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, openStep)
		defer cancel()
		answer <- p.kafka.lastEnding(ctx, p.opts.transactionalID(p.id))
	}()
	return answer
}

// lastEnding asks how the last transaction ended, or would if it were ended
// by InitProducerId. That forgets it, so it is asked before.
func (s *session) lastEnding(ctx context.Context, id string) (last learned) {
	passes := func(err error) bool { return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) } // a coordinator that is still loading, a broker that is away
	last.err = kafkapart.Retry(ctx, passes, func() (err error) {
		last, err = s.describe(ctx, id)
		return err
	})
	return last
}

func (s *session) describe(ctx context.Context, id string) (learned, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return learned{}, fmt.Errorf("describe transaction %s: %w", id, err)
	}
	for _, t := range resp.TransactionStates {
		last := learned{how: forgotten, producer: t.ProducerID, epoch: t.ProducerEpoch}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.TransactionalIDNotFound):
			return learned{how: neverBegun}, nil
		case err != nil:
			return learned{}, fmt.Errorf("describe transaction %s: %w", id, err)
		}
		switch t.State {
		case "PrepareCommit", "CompleteCommit":
			last.how = committed
		case "Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence":
			last.how = aborted
		}
		return last, nil
	}
	return learned{}, fmt.Errorf("describe transaction %s: empty answer", id)
}

// endings are what this process has learned and then made the brokers forget,
// by InitProducerId, until the opening is through.
type endings struct {
	mu sync.Mutex
	by map[int32]learned
}

func (e *endings) keep(partition int32, l learned) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[int32]learned{}
	}
	e.by[partition] = l
}

func (e *endings) drop(partition int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.by, partition)
}

// of is how the transaction before now ended, if it was us who made the brokers
// forget it, and nobody after us.
func (e *endings) of(partition int32, now learned) ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	if was, ok := e.by[partition]; ok && now.how == forgotten && was.producer == now.producer && was.epoch == now.epoch {
		return was.how
	}
	return now.how
}

// settle ends what the last owner's transaction has left open. It comes after
// InitProducerId, so nobody else can end it, and before the nonce, which must
// not make true what was aborted. Due topics that do not answer are left to the
// lookout; until then nothing may be written there.
func (p *Partition) settle(ctx context.Context, how ending) error {
	if how == neverBegun {
		return nil
	}
	left, err := p.leftByUs(ctx)
	if err != nil {
		return err
	}
	open := left.all()
	if how == forgotten && len(open)+len(left.unknown) > 0 {
		if how, err = p.tellEnding(ctx, open); err != nil {
			return err
		}
	}
	was := func(at kafkapart.TopicPartition) ending { return cmp.Or(p.own.unsettled[at], how) } // nothing was written there since
	unsettled := map[kafkapart.TopicPartition]ending{}
	for at, err := range left.unknown {
		if !p.dueTopics.IsDue(at.Topic) {
			return fmt.Errorf("where %s/%d ends: %w", at.Topic, at.Partition, err)
		}
		p.log.Warn("a due topic does not say whether a transaction was left open in it; what is due there waits", "topic", at.Topic, "its_partition", at.Partition, "error", err)
		unsettled[at] = was(at)
	}
	for _, how := range []ending{aborted, committed} {
		these := slices.DeleteFunc(slices.Clone(open), func(at kafkapart.TopicPartition) bool { return was(at) != how })
		refused, err := p.endOpen(ctx, these, how)
		if err != nil {
			return err
		}
		for _, at := range refused {
			if slices.Contains(left.ours, at) {
				unsettled[at] = how
			}
		}
	}
	p.own.unsettled = unsettled
	return nil
}

// isUnsettled says that a transaction may be open in a due topic whose end is not
// that of the next one.
func (p *Partition) isUnsettled(topic string) bool {
	for at := range p.own.unsettled {
		if at.Topic == topic {
			return true
		}
	}
	return false
}

// dueWithin is how long due topics may take to say what is open, which must not
// keep the others from firing.
const dueWithin = 3 * time.Second

// leftByUs looks everywhere for what the partition's producer has left open.
func (p *Partition) leftByUs(ctx context.Context) (left leftover, err error) {
	producer, _, err := p.kafka.cl.ProducerID(ctx)
	if err != nil {
		return left, err
	}
	topics, err := p.dueTopics.All(ctx)
	if err != nil {
		return left, err
	}
	var due []kafkapart.TopicPartition
	for _, t := range topics {
		due = append(due, t.WrittenBy(p.id)...)
	}
	beside := make(chan leftover)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, dueWithin)
		defer cancel()
		there, err := p.kafka.leftOpen(ctx, producer, due, openWithin)
		if err != nil {
			there = unknownAll(due, err)
		}
		beside <- there
	}()
	n := p.opts.Names
	left, err = p.kafka.leftOpen(ctx, producer, []kafkapart.TopicPartition{{Topic: n.State(), Partition: p.id}, {Topic: n.Events(), Partition: p.id}, {Topic: n.DeadLetter(), Partition: p.id}, {Topic: n.Rejected(), Partition: p.id}}, openWithin)
	there := <-beside
	if err != nil {
		return left, err
	}
	left.ours, left.perhaps = append(left.ours, there.ours...), append(left.perhaps, there.perhaps...)
	maps.Copy(left.unknown, there.unknown)
	return left, nil
}

// How long it is asked whether something is still open, at least: what others
// write to a shared partition, or what is just being ended, is not for long. A
// turn of ours that is under way is open, too: it has longer to end.
const (
	openWithin     = 120 * time.Millisecond
	openWithinTurn = 3 * time.Second
	openPause      = 20 * time.Millisecond
	mostOpenPause  = 500 * time.Millisecond
)

// leftover is where transactions are open that nobody seems to end.
type leftover struct {
	ours    []kafkapart.TopicPartition         // one of our producer
	perhaps []kafkapart.TopicPartition         // whose it is we may not ask, which needs READ
	unknown map[kafkapart.TopicPartition]error // no answer
}

func unknownAll(places []kafkapart.TopicPartition, err error) leftover {
	left := leftover{unknown: map[kafkapart.TopicPartition]error{}}
	for _, at := range places {
		left.unknown[at] = err
	}
	return left
}

func (l *leftover) all() []kafkapart.TopicPartition { return slices.Concat(l.ours, l.perhaps) }

// leftOpen looks for what a producer has left open. A partition that is not
// there has nothing open.
func (s *session) leftOpen(ctx context.Context, producer int64, places []kafkapart.TopicPartition, within time.Duration) (left leftover, err error) {
	if len(places) == 0 {
		return leftover{unknown: map[kafkapart.TopicPartition]error{}}, nil
	}
	var stable map[kafkapart.TopicPartition]int64
	var unstable map[kafkapart.TopicPartition]error
	beside := make(chan struct{})
	go func() {
		defer close(beside)
		stable, unstable = kafkapart.Ends(ctx, s.cl, places, kafkapart.ReadCommitted)
	}()
	ends, unknown := kafkapart.Ends(ctx, s.cl, places, kafkapart.ReadUncommitted)
	<-beside
	open := slices.DeleteFunc(slices.Clone(places), func(at kafkapart.TopicPartition) bool { return unknown[at] != nil })
	for pause, patience := openPause, time.Now().Add(within); ; pause = min(2*pause, mostOpenPause) {
		open = slices.DeleteFunc(open, func(at kafkapart.TopicPartition) bool { end, ok := stable[at]; return ok && end >= ends[at] })
		if len(open) == 0 || !time.Now().Before(patience) {
			break
		}
		if wait.For(ctx, pause); ctx.Err() != nil {
			return leftover{}, ctx.Err()
		}
		stable, unstable = kafkapart.Ends(ctx, s.cl, open, kafkapart.ReadCommitted)
	}
	maps.Copy(unknown, unstable) // of the last look
	open = slices.DeleteFunc(open, func(at kafkapart.TopicPartition) bool { return unknown[at] != nil })
	maps.DeleteFunc(unknown, func(_ kafkapart.TopicPartition, err error) bool { return errors.Is(err, kerr.UnknownTopicOrPartition) })
	left.unknown = unknown
	return left, s.tellOurs(ctx, producer, open, ends, &left)
}

// tellOurs tells what is ours of what is open from what is others', who may
// write to a channel's topic, too, for as long as they like. What was begun
// after the ends were asked for is a turn that is under way.
func (s *session) tellOurs(ctx context.Context, producer int64, open []kafkapart.TopicPartition, ends map[kafkapart.TopicPartition]int64, left *leftover) error {
	if len(open) == 0 {
		return nil
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	kafkapart.EachTopic(open, func(topic string, partitions []int32) {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	})
	answers := map[kafkapart.TopicPartition]kmsg.DescribeProducersResponseTopicPartition{}
	for _, shard := range s.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return fmt.Errorf("describe producers: %w", shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				answers[kafkapart.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p
			}
		}
	}
	for _, at := range open {
		answer, ok := answers[at]
		err := kerr.ErrorForCode(answer.ErrorCode)
		switch {
		case !ok:
			left.unknown[at] = kafkapart.ErrNoAnswer
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
func (p *Partition) tellEnding(ctx context.Context, open []kafkapart.TopicPartition) (ending, error) {
	state := p.state()
	if !slices.Contains(open, state) {
		return aborted, nil
	}
	stable, missing := kafkapart.Ends(ctx, p.kafka.cl, []kafkapart.TopicPartition{state}, kafkapart.ReadCommitted)
	if err := missing[state]; err != nil {
		return "", err
	}
	for next := stable[state]; ; {
		answer, err := p.kafka.reader.Fetch(ctx, state, next, kafkapart.ReadUncommitted)
		if err != nil || answer == nil {
			return "", fmt.Errorf("read what topic state is left with: %w", errors.Join(err, kerr.LeaderNotAvailable))
		}
		read, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: next, Topic: state.Topic, Partition: state.Partition}, answer, kgo.DefaultDecompressor(), nil)
		if read.Err != nil {
			return "", &kafkapart.FetchError{At: kafkapart.TopicPartition{Topic: state.Topic, Partition: state.Partition}, Err: read.Err}
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

// endOpen ends what is open, and sees to it that it is. Due topics may refuse
// that.
func (p *Partition) endOpen(ctx context.Context, open []kafkapart.TopicPartition, how ending) (refused []kafkapart.TopicPartition, err error) {
	if len(open) == 0 {
		return nil, nil
	}
	p.log.Warn("a transaction was left open; ending what is ours in it", "how", string(how), "where", fmt.Sprint(open))
	producer, epoch, err := p.kafka.cl.ProducerID(ctx)
	if err != nil {
		return nil, err
	}
	for len(open) > 0 {
		more, err := endAgain(ctx, p.opts, p.opts.transactionalID(p.id), producer, epoch, open, how == committed)
		if err != nil {
			return nil, fmt.Errorf("end what was left open: %w", err)
		}
		for _, at := range more {
			if !p.dueTopics.IsDue(at.Topic) {
				return nil, fmt.Errorf("end what was left open in %s/%d: refused", at.Topic, at.Partition)
			}
			p.log.Warn("a due topic refuses to have a transaction ended that was left open in it", "topic", at.Topic, "its_partition", at.Partition)
		}
		refused = append(refused, more...)
		open = slices.DeleteFunc(open, func(at kafkapart.TopicPartition) bool { return slices.Contains(more, at) })
		left, err := p.kafka.leftOpen(ctx, producer, open, openWithin)
		if err != nil {
			return nil, err
		}
		for at, err := range left.unknown { // its leader may have gone before the marker came
			return nil, fmt.Errorf("whether %s/%d is ended: %w", at.Topic, at.Partition, err)
		}
		if len(left.perhaps) > 0 {
			p.log.Warn("a transaction is open in a topic that the engine may not read; after its own was ended it is taken for somebody else's", "where", fmt.Sprint(left.perhaps))
		}
		open = left.ours
	}
	return refused, nil
}

// endAgain writes markers into partitions: a transaction without a record. kgo
// has none, and the brokers take its requests only in their older versions,
// which leave the producer's epoch to kgo. Those that may not be written to, or
// are not there any more, are refused.
func endAgain(ctx context.Context, o *Options, txn string, id int64, epoch int16, places []kafkapart.TopicPartition, commit bool) (refused []kafkapart.TopicPartition, err error) {
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3)
	versions.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
	cl, err := kgo.NewClient(append(slices.Clone(o.Kafka), kgo.MaxVersions(versions), kgo.DisableClientMetrics())...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for { // all of them, or none
		var not []kafkapart.TopicPartition
		if err := kafkapart.Retry(ctx, stillEnding, func() (err error) {
			not, err = addToTxn(ctx, cl, txn, id, epoch, places)
			return err
		}); err != nil {
			return nil, err
		}
		if len(not) == 0 {
			break
		}
		refused = append(refused, not...)
		places = slices.DeleteFunc(slices.Clone(places), func(at kafkapart.TopicPartition) bool { return slices.Contains(not, at) })
		if len(places) == 0 {
			return refused, nil
		}
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = txn, id, epoch, commit
	return refused, kafkapart.Retry(ctx, stillEnding, func() error {
		resp, err := end.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// addToTxn takes partitions into a transaction, or none if some are refused.
func addToTxn(ctx context.Context, cl *kgo.Client, txn string, id int64, epoch int16, places []kafkapart.TopicPartition) (refused []kafkapart.TopicPartition, err error) {
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = txn, id, epoch
	kafkapart.EachTopic(places, func(topic string, partitions []int32) {
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
				refused = append(refused, kafkapart.TopicPartition{Topic: t.Topic, Partition: p.Partition})
			default:
				return nil, fmt.Errorf("%s/%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return refused, nil
}

// stillEnding says that the transaction before is still being ended.
func stillEnding(err error) bool { return errors.Is(err, kerr.ConcurrentTransactions) }
