package waterclock

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrorType groups errors by what a caller does about them.
type ErrorType string

// The types. Each is an error itself, for errors.Is:
//
//	if errors.Is(err, waterclock.NotFound) …
const (
	Invalid         ErrorType = "invalid"         // the request has to be written otherwise
	NotFound        ErrorType = "not_found"       // no such trigger, or it is finished
	AlreadyFired    ErrorType = "already_fired"   // too late
	Conflict        ErrorType = "conflict"        // a condition, or an idempotency key, does not hold
	TooLarge        ErrorType = "too_large"       // payload, headers, body
	Unauthenticated ErrorType = "unauthenticated" // no credential, or a bad one
	Forbidden       ErrorType = "forbidden"       // the role, the channel or the URL is not allowed
	QuotaExceeded   ErrorType = "quota_exceeded"  // the tenant's; RetryAfter says when to come back
	Unavailable     ErrorType = "unavailable"     // nothing is wrong with the request
	ServerFault     ErrorType = "server"          // a fault of the server, or of what answered in its place
)

// Error makes a type an error, for errors.Is.
func (t ErrorType) Error() string { return "waterclock: " + string(t) }

// Error is why a call did not succeed.
type Error struct {
	Type   ErrorType
	Status int    // of the answer; 0 if there was none, or if the client refused by itself
	Code   string // of the problem, such as unknown_zone; it never changes its meaning
	Field  string // the field at fault
	Detail string // for a person: what to do

	TriggerID string // the trigger in question
	State     string // its state, where that is the reason
	RequestID string // header X-Request-Id of the answer, if a proxy set it

	RetryAfter time.Duration // what the server asked for
	Attempts   int           // requests that were sent

	// MaybeApplied is true for a write that may have been obeyed: an answer was
	// lost, or was 5xx, in any of the attempts.
	MaybeApplied bool

	cause error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("waterclock: ")
	if e.Code != "" {
		b.WriteString(e.Code)
	} else {
		b.WriteString(string(e.Type))
	}
	if e.Field != "" {
		fmt.Fprintf(&b, " (%s)", e.Field)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.MaybeApplied {
		b.WriteString(" (the write may have been obeyed)")
	}
	return b.String()
}

// Is is true of the error's type.
func (e *Error) Is(target error) bool {
	t, ok := target.(ErrorType)
	return ok && t == e.Type
}

// Unwrap is what the network or the context said; nil for an answer.
func (e *Error) Unwrap() error { return e.cause }

// ErrorOf is the Error in err; nil if there is none.
func ErrorOf(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// typeOf is the type of each documented code, whatever its status.
var typeOf = map[string]ErrorType{
	"invalid": Invalid, "invalid_key": Invalid, "not_a_command": Invalid, "ambiguous_tombstone": Invalid,
	"unknown_field": Invalid, "unknown_op": Invalid, "unknown_zone": Invalid, "unknown_channel": Invalid,
	"invalid_rule": Invalid, "disputed_rule": Invalid, "period_too_short": Invalid, "no_occurrences": Invalid,
	"conflicting_time": Invalid, "in_the_past": Invalid, "beyond_horizon": Invalid, "unsupported": Invalid,
	"malformed": Invalid, "method_not_allowed": Invalid,
	"not_found": NotFound, "already_fired": AlreadyFired,
	"conflict": Conflict, "idempotency_conflict": Conflict, "superseded": Conflict,
	"too_large": TooLarge, "unauthenticated": Unauthenticated,
	"forbidden": Forbidden, "forbidden_url": Forbidden, "forbidden_channel": Forbidden,
	"quota_exceeded": QuotaExceeded,
	"unavailable":    Unavailable, "overloaded": Unavailable, "not_owner": Unavailable, "misrouted": Unavailable,
	"internal": ServerFault,
}

// errorType follows from the code; for a code of a newer server, from the status.
func errorType(status int, code string) ErrorType {
	if t, ok := typeOf[code]; ok {
		return t
	}
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return NotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return Conflict
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	case http.StatusTooManyRequests:
		return QuotaExceeded
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	if status >= 400 && status < 500 {
		return Invalid
	}
	return ServerFault
}

// refuse is an error of the client's own: nothing was sent.
func refuse(code, field, detail string) *Error {
	return &Error{Type: Invalid, Code: code, Field: field, Detail: detail}
}

// problem is an error as the server writes it (RFC 9457).
type problem struct {
	Status    int    `json:"status"`
	Code      string `json:"code"`
	Field     string `json:"field"`
	Detail    string `json:"detail"`
	TriggerID string `json:"trigger_id"`
	State     string `json:"state"`
	ID        string `json:"id"`
	Line      int    `json:"line"`
}

func (p *problem) error(status int) *Error {
	return &Error{
		Type: errorType(status, p.Code), Status: status, Code: p.Code, Field: p.Field, Detail: p.Detail,
		TriggerID: p.TriggerID, State: p.State,
	}
}

// answered is the error in an answer that is none of 2xx.
func answered(status int, h http.Header, body []byte) *Error {
	var p problem
	if !strings.HasPrefix(h.Get("Content-Type"), "application/problem+json") || json.Unmarshal(body, &p) != nil {
		p = problem{Detail: "the answer is " + strconv.Itoa(status) + " " + http.StatusText(status) +
			", and no problem of Waterclock's; is the address right?"}
	}
	e := p.error(status)
	e.RequestID = h.Get("X-Request-Id")
	e.RetryAfter = retryAfter(h.Get("Retry-After"), time.Now())
	return e
}

// retryAfter reads the header: seconds, or an HTTP date.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// unreadable is a 2xx answer that cannot be what the API says.
func unreadable(status int, cause error) *Error {
	detail := "the answer cannot be read: " + cause.Error()
	return &Error{Type: ServerFault, Status: status, Detail: detail, cause: cause}
}

// WithCause is e with what it unwraps to: for package producer, whose causes
// are Kafka's.
func (e *Error) WithCause(cause error) *Error {
	e.cause = cause
	return e
}
