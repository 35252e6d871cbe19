package worker

import "time"

// Outcome is the outcome of a due event, as a receipt spells it.
type Outcome string

// The outcomes of a receipt.
const (
	OutcomeDelivered  Outcome = "delivered"
	OutcomeAccepted   Outcome = "accepted"
	OutcomeFailed     Outcome = "failed"
	OutcomeRetry      Outcome = "retry"
	OutcomePostponed  Outcome = "postponed"
	OutcomeSuppressed Outcome = "suppressed"
)

// known returns whether the engine knows o.
func (o Outcome) known() bool {
	switch o {
	case OutcomeDelivered, OutcomeAccepted, OutcomeFailed, OutcomeRetry, OutcomePostponed, OutcomeSuppressed:
		return true
	}
	return false
}

// final reports whether later attempts of the same occurrence and step need no handling.
func (o Outcome) final() bool {
	return o == OutcomeDelivered || o == OutcomeAccepted || o == OutcomeSuppressed
}

// The codes that this package itself puts into receipts.
const (
	CodeError    = "error"     // the handler returned an error
	CodePanic    = "panic"     // the handler panicked
	CodeTimeout  = "timeout"   // the handler took longer than HandlerTimeout
	CodeNoResult = "no_result" // the handler returned the zero Result, or an unknown outcome
	CodeExpired  = "expired"   // DueEvent.Expires had passed before the handler was called
)

// Result is the outcome that a handler returns for a due event. Create it with Delivered,
// Accepted, Retry, Fail, Postpone or Suppress.
type Result struct {
	Outcome Outcome

	// Code is a reason for machines. It is cut to 128 bytes.
	Code string

	// Detail is a reason for people and appears in the event log. It is cut to 1,024 bytes. Put
	// no secret into it.
	Detail string

	// RetryAfter is how long the engine waits, at most 30 days. For a retry, 0 means the retry
	// profile of the channel or trigger.
	RetryAfter time.Duration
}

// Delivered says that the receiver has the event. It ends an escalation.
func Delivered() Result { return Result{Outcome: OutcomeDelivered} }

// Accepted says that a provider has taken responsibility for the event. It does not end an
// escalation; a later delivered receipt does.
func Accepted() Result { return Result{Outcome: OutcomeAccepted} }

// Retry asks for another attempt, after the given time, or with 0 after the time in the retry
// profile. After the last attempt of the profile, the engine treats it as Fail.
func Retry(after time.Duration) Result {
	return Result{Outcome: OutcomeRetry, RetryAfter: after}
}

// Fail says that no attempt can succeed. The next escalation step follows, or else the event
// becomes a dead letter.
func Fail(code, detail string) Result {
	return Result{Outcome: OutcomeFailed, Code: code, Detail: detail}
}

// Postpone asks for the same attempt later, for example when the receiver is known to be down. It
// does not count as an attempt.
func Postpone(after time.Duration, code string) Result {
	return Result{Outcome: OutcomePostponed, RetryAfter: after, Code: code}
}

// Suppress says that the event must not be delivered, for example because the user has opted out.
func Suppress(code string) Result { return Result{Outcome: OutcomeSuppressed, Code: code} }

// WithCode returns r with a code.
func (r Result) WithCode(code string) Result {
	r.Code = code
	return r
}

// WithDetail returns r with a detail.
func (r Result) WithDetail(detail string) Result {
	r.Detail = detail
	return r
}

// checked returns r with values that a receipt may carry.
func (r Result) checked() Result {
	if !r.Outcome.known() {
		return Result{
			Outcome: OutcomeRetry, Code: CodeNoResult,
			Detail: "the handler returned no outcome: return worker.Delivered() or another one",
		}
	}
	r.RetryAfter = min(max(r.RetryAfter, 0), maxRetryAfter)
	r.Code, r.Detail = clip(r.Code, maxCode), clip(r.Detail, maxDetail)
	return r
}
