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

// Health knows which due topics refuse a partition's records. It stays when the partition
// is opened anew, which the first refusal of a topic causes.
type Health struct {
	topics    *Topics
	partition int32
	log       *slog.Logger
	unhealthy map[string]*Unhealthy
}

// Unhealthy is a due topic that refuses records: missing, denied, or too small. Its
// triggers are put off with back-off, then fail. Other channels go on. A topic that does
// not answer is unhealthy, too, but its triggers wait as long as it is silent.
type Unhealthy struct {
	Reason string
	Silent bool
	until  time.Time
	tries  int
}

// NewHealth makes a Health in which all topics are healthy.
func NewHealth(t *Topics, partition int32) *Health {
	return &Health{
		topics: t, partition: partition, log: t.Logger.With("partition", partition),
		unhealthy: map[string]*Unhealthy{},
	}
}

// Of returns what is wrong with a topic, as far as known; nil if a record may be sent. ask
// is true if Check must find out.
func (h *Health) Of(topic string) (u *Unhealthy, ask bool) {
	u = h.unhealthy[topic]
	if u != nil && time.Now().Before(u.until) {
		return u, false
	}
	return nil, u != nil || !h.topics.Knows(topic)
}

// Check finds a topic, or creates it. It checks an unhealthy topic after its back-off,
// before a record is sent there.
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

// Refused notes a topic that made a turn fail. Errors that a retry cures, or that concern
// the transaction, do not make a topic unhealthy.
func (h *Health) Refused(topic string, cause error) {
	if h.topics.Spares(topic) && !passes(cause) {
		h.fail(topic, cause)
	}
}

// Recovered removes topics that have accepted records since.
func (h *Health) Recovered(taken func(topic string) bool) {
	for topic := range h.unhealthy {
		if taken(topic) {
			delete(h.unhealthy, topic)
		}
	}
}

// refusals are the errors of a topic that an immediate retry cannot cure.
var refusals = []error{
	kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.InvalidTopicException,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.PolicyViolation,
}

// ofTransaction are the errors that concern the transaction.
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

// AnswerTimeout is how long a topic may leave records unanswered after all others have
// answered. A transaction may take twice that.
const AnswerTimeout = 5 * time.Second

// ErrSilent says that a topic does not answer.
var ErrSilent = fmt.Errorf("no answer for %v: its partition may have no leader, or too few replicas", AnswerTimeout)

// These bound the time between two tries of an unhealthy topic. A try may cost a turn; only
// the question for its leader does not.
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
	what := "a due topic refuses records; its triggers wait"
	if !h.topics.IsDue(topic) {
		what = "a topic refuses records; turns go on without it"
	}
	h.log.Warn(what, "topic", topic, "reason", u.Reason, "tries", u.tries)
	return u
}
