package waterclock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// repeatable says whether a request may be repeated although the first one may have been applied.
type repeatable int

const (
	never           repeatable = iota // only if certainly nothing was applied
	unconditionally                   // the same as never, and a revision does not help
	safely                            // a second request changes nothing more
)

// ifConditional is the rule for writes that a condition makes safe.
func ifConditional(o *options) repeatable {
	if o.ifRevision != nil {
		return safely
	}
	return never
}

// retry reports whether to repeat the request, and after which wait.
//
// After 429 nothing was applied, so every request may be repeated. The same holds for a request
// that never reached the server. Every other request may have been applied.
func (c *Client) retry(e *Error, r repeatable, sent bool) (wait time.Duration, ok bool) {
	switch {
	case e.Attempts > c.retries || e.tooLong():
		return 0, false
	case e.Status == http.StatusTooManyRequests:
	case e.Status == 0 && !sent:
	case r != safely:
		return 0, false
	case e.Status == 0, e.Status == http.StatusRequestTimeout, e.Status >= 500, e.cut():
	default:
		return 0, false
	}
	wait = e.RetryAfter
	if wait == 0 {
		most := c.backoff << min(e.Attempts-1, 5)
		wait = most/2 + rand.N(most/2+1)
	}
	return wait, e.RetryAfter <= c.maxWait
}

// cut reports whether a good answer broke off before its end.
func (e *Error) cut() bool { return e.Status < 300 && errors.Is(e.cause, errCut) }

var errCut = errors.New("the connection ended within it")

// tooLongError is the bound that an answer exceeds. It would be as long the next time.
type tooLongError int64

func (most tooLongError) Error() string {
	return fmt.Sprintf("it has over %d bytes; see MaxAnswer", int64(most))
}

func (e *Error) tooLong() bool {
	var most tooLongError
	return errors.As(e.cause, &most)
}

func (c *Client) tooLong(status int) *Error { return unreadable(status, tooLongError(c.maxAnswer)) }

// sleep returns false if the context ends first, or would.
func sleep(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
