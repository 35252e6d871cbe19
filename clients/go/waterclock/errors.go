package waterclock

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrorType groups errors by what a caller can do about them.
type ErrorType string

// The error types. Each is itself an error, for errors.Is:
//
//	if errors.Is(err, waterclock.NotFound) …
const (
	Invalid         ErrorType = "invalid"         // the request is wrong and must change
	NotFound        ErrorType = "not_found"       // the trigger does not exist, or has finished
	AlreadyFired    ErrorType = "already_fired"   // too late, it has fired
	Conflict        ErrorType = "conflict"        // a condition failed, or an idempotency key was reused
	TooLarge        ErrorType = "too_large"       // payload, headers or body
	Unauthenticated ErrorType = "unauthenticated" // the credential is missing or wrong
	Forbidden       ErrorType = "forbidden"       // the role, the channel or the URL is not allowed
	QuotaExceeded   ErrorType = "quota_exceeded"  // quota of the tenant; RetryAfter says when to retry
	Unavailable     ErrorType = "unavailable"     // nothing is wrong with the request; it may succeed later
	ServerFault     ErrorType = "server"          // a fault of the server, or of a proxy that answered instead
)

// Error makes the type an error, for errors.Is.
func (t ErrorType) Error() string { return "waterclock: " + string(t) }

// Error describes why a call failed.
type Error struct {
	Type   ErrorType
	Status int    // HTTP status; 0 if there was no answer, or if the client refused the call itself
	Code   string // code of the problem, such as unknown_zone; its meaning never changes
	Field  string // the field that is wrong
	Detail string // for people: what to do

	TriggerID string // the trigger that the error is about
	State     string // its state, if that is the reason
	RequestID string // header X-Request-Id of the answer, if a proxy set it

	RetryAfter time.Duration // the wait that the server asked for
	Attempts   int           // number of requests sent

	// MaybeApplied is true for a write that may have been applied: in one of the attempts the
	// answer was lost or was 5xx.
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
		b.WriteString(" (the write may have been applied)")
	}
	return b.String()
}

// Is reports whether target is the type of the error.
func (e *Error) Is(target error) bool {
	t, ok := target.(ErrorType)
	return ok && t == e.Type
}

// Unwrap returns the error of the network or the context. It is nil if the server answered.
func (e *Error) Unwrap() error { return e.cause }

// ErrorOf returns the Error in err, or nil if there is none.
func ErrorOf(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// typeOf maps each documented code to its type, whatever the status.
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

// errorType derives the type from the code. For a code of a newer server it uses the status.
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

// refuse creates an error of the client itself: nothing was sent.
func refuse(code, field, detail string) *Error {
	return &Error{Type: errorType(http.StatusBadRequest, code), Code: code, Field: field, Detail: detail}
}

// problem is an error document as the server sends it (RFC 9457).
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

// answered converts an answer with a status other than 2xx.
func answered(status int, h http.Header, body []byte) *Error {
	var p problem
	if !strings.HasPrefix(h.Get("Content-Type"), "application/problem+json") || json.Unmarshal(body, &p) != nil {
		p = problem{Detail: "the answer is " + strconv.Itoa(status) + " " + http.StatusText(status) +
			", and not a problem document of Waterclock; check the address"}
	}
	e := p.error(status)
	e.RequestID = h.Get("X-Request-Id")
	e.RetryAfter = retryAfter(h.Get("Retry-After"), time.Now())
	return e
}

// retryAfter parses the header Retry-After: seconds, or an HTTP date. A number that is too large is the longest wait.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseFloat(text, 64); n >= 0 && (err == nil || errors.Is(err, strconv.ErrRange)) {
		return time.Duration(min(n, float64(math.MaxInt64/time.Second)) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// unreadable is the error for a 2xx answer that does not match the API.
func unreadable(status int, cause error) *Error {
	detail := "the answer cannot be read: " + cause.Error()
	return &Error{Type: ServerFault, Status: status, Detail: detail, cause: cause}
}

// WithCause sets the error that e unwraps to. It is for package producer, whose causes come from
// Kafka.
func (e *Error) WithCause(cause error) *Error {
	e.cause = cause
	return e
}
