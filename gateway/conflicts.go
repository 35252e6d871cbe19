package gateway

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// A change that is made of what was read, or under If-Match: *, asks for the
// revision that was read. The caller did not ask for that revision, so a change by
// somebody else in between is no reason to refuse: the change is retried.

// Pauses between retries have a random length. firstConflictPause bounds the first,
// maxConflictPause any; the bound doubles.
const (
	firstConflictPause = 10 * time.Millisecond
	maxConflictPause   = 200 * time.Millisecond
)

// retryConflicts retries a change, if it may be, for as long as a decision may take.
// The pauses let others through who do the same.
func (s *Server) retryConflicts(r *request, change func() (c *command, v verdict, retry bool, err error)) (
	*command, verdict, error,
) {
	late := time.Now().Add(s.opts.AnswerWithin)
	for most := firstConflictPause; ; most = min(2*most, maxConflictPause) {
		c, v, retry, err := change()
		if !retry || c == nil || !changedMeanwhile(err) { // nil: what was read was refused already
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

// changedMeanwhile says that a command was refused because the trigger is not at
// the revision that was read.
func changedMeanwhile(err error) bool {
	p, ok := errors.AsType[*problem.Problem](err)
	return ok && p.Code == trigger.CodeConflict && p.Field == "if_revision"
}
