package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/trigger"
)

// sickness is a due topic that refuses records: missing, denied, too small. Its
// triggers are put off with back-off, then fail; other channels go on. One that
// does not answer is sick, too, but its triggers wait for as long as that is so.
// A sickness outlives the partition's reopening, which its first refusal causes.
type sickness struct {
	reason string
	silent bool
	until  time.Time
	tries  int
}

// refusals are the answers of a topic that trying again at once cannot mend.
var refusals = []error{kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.InvalidTopicException,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.PolicyViolation}

// diagnose notes the topic that made a turn fail. What another try cures, and
// what concerns the transaction rather than the topic, is no sickness.
func (p *Partition) diagnose(err error) {
	var refused *produceError
	if !errors.As(err, &refused) || p.resize(refused) || !p.isDueTopic(refused.topic) {
		return
	}
	cause := refused.err
	passing := kerr.IsRetriable(cause) || errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(cause, kgo.ErrClientClosed) || errors.Is(cause, kgo.ErrAborting)
	for _, e := range []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState,
		kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable, kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed} {
		passing = passing || errors.Is(cause, e)
	}
	for _, e := range refusals {
		passing = passing && !errors.Is(cause, e)
	}
	if !passing {
		p.ail(refused.topic, cause)
	}
}

// Between two tries of a sick topic, at most. Each may cost a turn, but for the
// question whether it has a leader.
const (
	mostSickPause = 5 * time.Minute
	leaderPause   = 30 * time.Second
)

func (p *Partition) ail(topic string, cause error) {
	s := p.sick[topic]
	if s == nil {
		s = &sickness{}
		p.sick[topic] = s
	}
	s.reason = cause.Error()
	s.silent = errors.Is(cause, errSilent) || errors.Is(cause, kerr.LeaderNotAvailable)
	s.tries++
	p.dueTopics.forget(topic)
	most := mostSickPause
	if errors.Is(cause, kerr.LeaderNotAvailable) {
		most = leaderPause
	}
	s.until = time.Now().Add(min(time.Second<<min(s.tries, 9), most))
	p.log.Warn("a due topic refuses records; its triggers wait", "topic", topic, "reason", s.reason, "tries", s.tries)
}

// isDueTopic says whether a topic is none of our own: those must never be put off.
func (p *Partition) isDueTopic(topic string) bool {
	n := p.opts.Names
	switch topic {
	case n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Commands(), n.Receipts():
		return false
	}
	return true
}

// ailing says whether a due event's topic refuses records now. After its
// back-off the topic is looked at again before anything is sent to it.
func (p *Partition) ailing(ctx context.Context, f *trigger.Fire) *sickness {
	settings := p.opts.Channels.Settings(f.Channel)
	topic := p.dueTopic(&settings, f)
	if p.isUnsettled(topic) {
		return &sickness{silent: true}
	}
	s := p.sick[topic]
	if s != nil && time.Now().Before(s.until) {
		return s
	}
	if s == nil && p.dueTopics.knows(topic) {
		return nil
	}
	p.own.step(stepDueTopic)
	defer p.own.step(StepEmit)
	_, err := p.dueTopics.ensure(ctx, topic, settings.ByKey)
	if err == nil && s != nil && s.silent {
		err = p.dueTopics.led(ctx, topic, p.id, settings.ByKey)
	}
	if err != nil {
		p.ail(topic, err)
		return p.sick[topic]
	}
	return nil
}

// healed forgets the sickness of topics that have taken records again.
func (p *Partition) healed(t *turn) {
	for topic := range p.sick {
		if t.manifest.byTopic[topic] != nil {
			delete(p.sick, topic)
		}
	}
}

// AbortReasons are why a turn may be given up.
var AbortReasons = []string{abortClosed, abortFenced, abortProduce, abortFetch, abortOther}

const (
	abortClosed  = "closed"
	abortFenced  = "fenced"
	abortProduce = "produce"
	abortFetch   = "fetch"
	abortOther   = "other"
)

// abortReason names why a turn was given up, for a metric: few values.
func abortReason(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return abortClosed
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return abortFenced
	}
	var refused *produceError
	if errors.As(err, &refused) {
		return abortProduce
	}
	var fetch *kafkapart.FetchError
	if errors.As(err, &fetch) {
		return abortFetch
	}
	return abortOther
}
