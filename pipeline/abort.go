package pipeline

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// AbortReasons lists why a turn may be aborted.
var AbortReasons = []string{abortClosed, abortFenced, abortProduce, abortFetch, abortOther}

const (
	abortClosed  = "closed"
	abortFenced  = "fenced"
	abortProduce = "produce"
	abortFetch   = "fetch"
	abortOther   = "other"
)

// diagnose notes which topic made a turn fail.
func (p *Partition) diagnose(err error) {
	var refused *produceError
	if errors.As(err, &refused) && !p.kafka.sizes.resize(refused, p.dueTopics.IsDue(refused.topic), p.log) {
		p.kept.health.Refused(refused.topic, refused.err)
	}
}

// abortReason names why a turn was aborted. It has few values, because a metric has it as a
// label.
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
