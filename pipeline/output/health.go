package output

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Health is which due topics refuse a partition's records. It outlives the
// partition's reopening, which the first refusal of a topic causes.
type Health struct {
	topics    *Topics
	partition int32
	log       *slog.Logger
	unhealthy map[string]*Unhealthy
}

// Unhealthy is a due topic that refuses records: missing, denied, too small. Its
// triggers are put off with back-off, then fail; other channels go on. One that
// does not answer is unhealthy, too, but its triggers wait for as long as that
// is so.
type Unhealthy struct {
	Reason string
	Silent bool
	until  time.Time
	tries  int
}

// NewHealth is that of a partition whose topics are all healthy.
func NewHealth(t *Topics, partition int32) *Health {
	return &Health{
		topics: t, partition: partition, log: t.Logger.With("partition", partition),
		unhealthy: map[string]*Unhealthy{},
	}
}

// Of is what is wrong with a topic as far as it is known; nil if a record may be
// sent. ask says that Check must find out.
func (h *Health) Of(topic string) (u *Unhealthy, ask bool) {
	u = h.unhealthy[topic]
	if u != nil && time.Now().Before(u.until) {
		return u, false
	}
	return nil, u != nil || !h.topics.Knows(topic)
}

// Check finds a topic, or creates it. After its back-off an unhealthy topic is
// checked before anything is sent to it.
func (h *Health) Check(ctx context.Context, topic string, byKey bool) *Unhealthy {
	u := h.unhealthy[topic]
	_, err := h.topics.Ensure(ctx, topic, byKey)
	if err == nil && u != nil && u.Silent {
		err = h.topics.CheckLeaders(ctx, topic, h.partition, byKey)
	}
	if err == nil {
		return nil
	}
	return h.fail(topic, err)
}

// Refused notes a topic that made a turn fail. What another try cures, and what
// concerns the transaction rather than the topic, does not make it unhealthy.
func (h *Health) Refused(topic string, cause error) {
	if h.topics.IsDue(topic) && !passes(cause) {
		h.fail(topic, cause)
	}
}

// Recovered drops what was wrong with topics that have taken records since.
func (h *Health) Recovered(taken func(topic string) bool) {
	for topic := range h.unhealthy {
		if taken(topic) {
			delete(h.unhealthy, topic)
		}
	}
}

// refusals are the answers of a topic that trying again at once cannot mend.
var refusals = []error{
	kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.InvalidTopicException,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.PolicyViolation,
}

// ofTransaction are the answers that concern the transaction.
var ofTransaction = []error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping,
	kerr.InvalidTxnState, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable,
	kerr.TransactionalIDAuthorizationFailed, kerr.ClusterAuthorizationFailed,
}

func passes(cause error) bool {
	if isAny(cause, refusals) {
		return false
	}
	return kerr.IsRetriable(cause) || errors.Is(cause, context.Canceled) ||
		errors.Is(cause, context.DeadlineExceeded) ||
		errors.Is(cause, kgo.ErrClientClosed) || errors.Is(cause, kgo.ErrAborting) || isAny(cause, ofTransaction)
}

func isAny(err error, of []error) bool {
	for _, e := range of {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// AnswerTimeout is how long a topic may leave records without an answer when all
// others have answered. A transaction may take twice that.
const AnswerTimeout = 5 * time.Second

// ErrSilent says that a topic does not answer.
var ErrSilent = fmt.Errorf("no answer for %v: its partition may have no leader, or too few replicas", AnswerTimeout)

// Between two tries of an unhealthy topic, at most. Each may cost a turn, but for
// the question whether it has a leader.
const (
	maxPause    = 5 * time.Minute
	LeaderPause = 30 * time.Second
)

func (h *Health) fail(topic string, cause error) *Unhealthy {
	u := h.unhealthy[topic]
	if u == nil {
		u = &Unhealthy{}
		h.unhealthy[topic] = u
	}
	u.Reason = cause.Error()
	u.Silent = errors.Is(cause, ErrSilent) || errors.Is(cause, kerr.LeaderNotAvailable)
	u.tries++
	h.topics.Forget(topic)
	most := maxPause
	if errors.Is(cause, kerr.LeaderNotAvailable) {
		most = LeaderPause
	}
	u.until = time.Now().Add(min(time.Second<<min(u.tries, 9), most))
	h.log.Warn("a due topic refuses records; its triggers wait", "topic", topic, "reason", u.Reason, "tries", u.tries)
	return u
}
