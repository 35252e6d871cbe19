package worker

import "time"

// Outcome is what became of a due event, as a receipt spells it.
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

// final says that no later attempt of the same occurrence and step has to be
// handled.
func (o Outcome) final() bool {
	return o == OutcomeDelivered || o == OutcomeAccepted || o == OutcomeSuppressed
}

// The codes that the kit itself puts into receipts.
const (
	CodeError    = "error"     // the handler returned an error
	CodePanic    = "panic"     // the handler panicked
	CodeTimeout  = "timeout"   // the handler took longer than HandlerTimeout
	CodeNoResult = "no_result" // the handler returned the zero Result, or one without a known outcome
	CodeExpired  = "expired"   // past DueEvent.Expires before the handler was called
)

// Result is what a handler says became of a due event. Make it with
// Delivered, Accepted, Retry, Fail, Postpone or Suppress.
type Result struct {
	Outcome Outcome

	// Code names the reason for machines; at most 128 bytes, the rest is cut.
	Code string

	// Detail is for people and ends up in the event log; at most 1,024 bytes,
	// the rest is cut. Put no secret into it.
	Detail string

	// RetryAfter is how long the engine waits, at most 30 days. For a retry 0
	// means the profile of the channel or trigger.
	RetryAfter time.Duration
}

// Delivered says that the receiver has it. It ends an escalation.
func Delivered() Result { return Result{Outcome: OutcomeDelivered} }

// Accepted says that a provider has taken it over. It does not end an
// escalation; a later delivered receipt does.
func Accepted() Result { return Result{Outcome: OutcomeAccepted} }

// Retry asks for another attempt, after the given time or, with 0, after the
// profile. Past the profile's last attempt the engine takes it for Fail.
func Retry(after time.Duration) Result {
	return Result{Outcome: OutcomeRetry, RetryAfter: after}
}

// Fail says that no attempt can succeed: the next escalation step, else a dead
// letter.
func Fail(code, detail string) Result {
	return Result{Outcome: OutcomeFailed, Code: code, Detail: detail}
}

// Postpone asks for the same attempt later, such as when the receiver is known
// to be away. It uses up no attempt.
func Postpone(after time.Duration, code string) Result {
	return Result{Outcome: OutcomePostponed, RetryAfter: after, Code: code}
}

// Suppress says that it is not to be delivered, such as when the user has
// opted out.
func Suppress(code string) Result { return Result{Outcome: OutcomeSuppressed, Code: code} }

// WithCode is r with a code.
func (r Result) WithCode(code string) Result {
	r.Code = code
	return r
}

// WithDetail is r with a detail.
func (r Result) WithDetail(detail string) Result {
	r.Detail = detail
	return r
}

// checked is r as a receipt can say it.
func (r Result) checked() Result {
	switch r.Outcome {
	case OutcomeDelivered, OutcomeAccepted, OutcomeFailed, OutcomeRetry, OutcomePostponed, OutcomeSuppressed:
	default:
		return Result{
			Outcome: OutcomeRetry, Code: CodeNoResult,
			Detail: "the handler returned no outcome: return worker.Delivered() or another one",
		}
	}
	r.RetryAfter = min(max(r.RetryAfter, 0), maxRetryAfter)
	r.Code, r.Detail = clip(r.Code, maxCode), clip(r.Detail, maxDetail)
	return r
}
