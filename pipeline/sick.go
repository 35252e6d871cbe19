package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/trigger"
)

// sickness is a due topic that refuses records: missing, denied, too small.
// Its triggers are put off with back-off, then fail; other channels go on.
// It outlives the partition's reopening, which its first refusal causes.
type sickness struct {
	reason string
	until  time.Time
	tries  int
}

// refusals are the answers of a topic that trying again at once cannot mend.
var refusals = []error{kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.InvalidTopicException,
	kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.PolicyViolation}

// diagnose notes the topic that made a turn fail.
func (p *Partition) diagnose(err error) {
	var refused *produceError
	if !errors.As(err, &refused) || !p.isDueTopic(refused.topic) {
		return
	}
	for _, r := range refusals {
		if errors.Is(refused.err, r) {
			p.ail(refused.topic, r.Error())
			return
		}
	}
}

func (p *Partition) ail(topic, reason string) {
	s := p.sick[topic]
	if s == nil {
		s = &sickness{}
		p.sick[topic] = s
	}
	s.reason = reason
	s.tries++
	s.until = time.Now().Add(min(time.Second<<min(s.tries, 9), 5*time.Minute))
	p.log.Warn("a due topic refuses records; its triggers wait", "topic", topic, "reason", reason, "tries", s.tries)
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

// ailing says whether a due event's topic refuses records now.
func (p *Partition) ailing(f *trigger.Fire) *sickness {
	settings := p.opts.Channels.Settings(f.Channel)
	topic := p.dueTopic(&settings, f)
	s := p.sick[topic]
	switch {
	case s == nil:
		return nil
	case time.Now().After(s.until):
		return nil // try again; a refusal makes it sick again
	}
	return s
}

// abortReason names why a turn was given up, for a metric: few values.
func abortReason(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "closed"
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return "fenced"
	}
	var refused *produceError
	if errors.As(err, &refused) {
		return "produce"
	}
	var fetch *fetchError
	if errors.As(err, &fetch) {
		return "fetch"
	}
	return "other"
}
