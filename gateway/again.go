package gateway

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// A change that is made of what was read, or under If-Match: *, asks for the
// revision that was read. Where that is not what its caller asked for, it is made
// anew while the trigger changes under our hands.

// againPause bounds the first pause before a change is made anew, mostAgainPause
// any: the bound doubles.
const (
	againPause     = 10 * time.Millisecond
	mostAgainPause = 200 * time.Millisecond
)

// anew makes a change anew, if it may be, for as long as a decision may take;
// pauses of random length let others through who do the same.
func (s *Server) anew(r *request, change func() (c *command, v verdict, again bool, err error)) (*command, verdict, error) {
	late := time.Now().Add(s.opts.AnswerWithin)
	for most := againPause; ; most = min(2*most, mostAgainPause) {
		c, v, again, err := change()
		if !again || c == nil || !changedMeanwhile(err) { // nil: what was read was refused already
			return c, v, err
		}
		select {
		case <-r.Context().Done():
		case <-time.After(rand.N(most)):
		}
		if r.Context().Err() != nil || time.Now().After(late) {
			return nil, verdict{}, problem.Unavailable(nil, "the trigger changes faster than "+r.Method+" can follow; this request has changed nothing: send it again").About(c.id)
		}
	}
}

// changedMeanwhile says that a command was refused because the trigger is not at
// the revision that was read.
func changedMeanwhile(err error) bool {
	p, ok := errors.AsType[*problem.Problem](err)
	return ok && p.Code == trigger.CodeConflict && p.Field == "if_revision"
}
