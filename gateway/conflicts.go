package gateway

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// A change that depends on what was read, or that has If-Match: *, asks for the revision
// that was read. The caller did not ask for that revision. So another change in between is
// no reason to refuse, and the change is retried.

// Pauses between retries have a random length. firstConflictPause bounds the first,
// maxConflictPause all others; the bound doubles.
const (
	firstConflictPause = 10 * time.Millisecond
	maxConflictPause   = 200 * time.Millisecond
)

// retryConflicts retries a change if that is allowed, for as long as a decision may take.
// The pauses give way to other callers that retry.
func (s *commandWriter) retryConflicts(r *request, change func() (c *command, v verdict, retry bool, err error)) (
	*command, verdict, error,
) {
	late := time.Now().Add(s.answerWithin)
	for most := firstConflictPause; ; most = min(2*most, maxConflictPause) {
		c, v, retry, err := change()
		if !retry || c == nil || !changedMeanwhile(err) { // nil: refused before a command was made
			return c, v, err
		}
		select {
		case <-r.Context().Done():
		case <-time.After(rand.N(most)):
		}
		if r.Context().Err() != nil || time.Now().After(late) {
			return nil, verdict{}, problem.Unavailable(nil, "the trigger changes faster than "+r.Method+
				" can follow; this request has changed nothing: send it again").About(c.id)
		}
	}
}

// changedMeanwhile reports whether a command was refused because the trigger is at another
// revision than the one that was read.
func changedMeanwhile(err error) bool {
	p, ok := errors.AsType[*problem.Problem](err)
	return ok && p.Code == trigger.CodeConflict && p.Field == "if_revision"
}
