// Package problem is the errors of the HTTP API: problem+json (RFC 9457), their
// codes, and how any error of ours is put to a caller.
//
// # Source of truth
//
// trigger and the contract, for codes and fields. The codes here are of HTTP
// alone. A caller decides by code and field; title and detail are for people.
//
// # Promises
//
//   - Of takes any error. One of a type that is not for callers becomes internal,
//     and the answer says nothing of it: its cause is for the log.
//   - What came from outside is clipped and quoted before it is repeated.
//
// The package knows no route and no server. All of it is in this file.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// Codes of problems that only HTTP has, beside the contract's.
const (
	CodeMalformed        trigger.Code = "malformed"          // 400: not JSON, or not one object
	CodeUnauthenticated  trigger.Code = "unauthenticated"    // 401: no credential, or a bad one
	CodeForbidden        trigger.Code = "forbidden"          // 403: the role does not allow it
	CodeMethodNotAllowed trigger.Code = "method_not_allowed" // 405
	CodeBeforeHistory    trigger.Code = "before_history"     // 410: the history does not reach that far back
	CodeUnavailable      trigger.Code = "unavailable"        // 503: Kafka, the owner or the history is away
	CodeInternal         trigger.Code = "internal"           // 500: a fault of ours, in the log
)

// Problem is an error as RFC 9457 has it. Code and Field are the contract's.
type Problem struct {
	Type       string       `json:"type" doc:"urn:waterclock:problem: and the code" example:"urn:waterclock:problem:unknown_zone"`
	Title      string       `json:"title" doc:"The HTTP status in words"`
	Status     int          `json:"status"`
	Code       trigger.Code `json:"code" doc:"Code of the problem; its meaning never changes" example:"unknown_zone"`
	Field      string       `json:"field,omitempty" doc:"The field at fault"`
	Detail     string       `json:"detail,omitempty" doc:"What to do, for a person"`
	TriggerID  string       `json:"trigger_id,omitempty" doc:"The trigger that the request named or created"`
	State      string       `json:"state,omitempty" doc:"The trigger's state, where it is the reason"`
	ID         string       `json:"id,omitempty" doc:"In a batch: the id of the line"`
	Line       int          `json:"line,omitempty" doc:"In a batch: the line, from 1"`
	RetryAfter int          `json:"retry_after,omitempty" doc:"Seconds; the same as the header Retry-After"`

	Triggers     []string `json:"triggers,omitempty" doc:"Of a calendar: up to 5 of the caller's triggers that name it"`
	TriggerCount int64    `json:"trigger_count,omitempty" doc:"Of a calendar: how many triggers of all tenants name it"`

	Since string `json:"since,omitempty" doc:"Of before_history: from when on the history reaches"`

	// Visited is in the answer to a read that met its budget.
	Visited int64 `json:"looked_at,omitempty" doc:"How many triggers and occurrences a read had visited when it stopped: for operators of all tenants, for others their own"`

	allow string // 405: the header Allow
	cause error  // for the log
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// Unwrap is the cause, for our log; nil where the request is at fault.
func (p *Problem) Unwrap() error { return p.cause }

// Allow is what the header Allow of the answer says; "" but for a 405.
func (p *Problem) Allow() string { return p.allow }

// About names the trigger in question.
func (p *Problem) About(id string) *Problem {
	p.TriggerID = id
	return p
}

// Retry says when to come back, in whole seconds, rounded up.
func (p *Problem) Retry(after time.Duration) *Problem {
	p.RetryAfter = max(1, int((after+time.Second-1)/time.Second))
	return p
}

// New is a problem of the request; field is the one at fault, if it is one.
func New(status int, code trigger.Code, field, detail string) *Problem {
	return &Problem{
		Type: "urn:waterclock:problem:" + string(code), Title: http.StatusText(status), Status: status,
		Code: code, Field: field, Detail: detail,
	}
}

// Malformed is a body that is no JSON, or not one object: 400.
func Malformed(detail string) *Problem {
	return New(http.StatusBadRequest, CodeMalformed, "", detail)
}

// BadParameter is a parameter of the query that does not fit: 400.
func BadParameter(name, detail string) *Problem {
	return New(http.StatusBadRequest, trigger.CodeInvalid, name, detail)
}

// NotFound is a trigger that is not there: 404.
func NotFound(id string) *Problem {
	return New(http.StatusNotFound, trigger.CodeNotFound, "", "no such trigger").About(id)
}

// MethodNotAllowed names the methods that a path has, in the order of letters.
func MethodNotAllowed(method string, allowed []string) *Problem {
	methods := strings.Join(allowed, ", ")
	p := New(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "", method+" is not allowed on this path: use "+methods)
	p.allow = methods
	return p
}

// Unavailable says that nothing is wrong with the request: try again.
func Unavailable(cause error, detail string) *Problem {
	p := New(http.StatusServiceUnavailable, CodeUnavailable, "", detail)
	p.RetryAfter, p.cause = 1, cause
	return p
}

// TooMany refuses what is over a limit: 429. It says when to come back.
func TooMany(code trigger.Code, detail string, after time.Duration) *Problem {
	return New(http.StatusTooManyRequests, code, "", detail).Retry(after)
}

// statusOf maps the contract's codes; what is not in it is refused, 422.
var statusOf = map[trigger.Code]int{
	CodeMalformed:             http.StatusBadRequest,
	trigger.CodeTooLarge:      http.StatusRequestEntityTooLarge,
	trigger.CodeNotFound:      http.StatusNotFound,
	trigger.CodeAlreadyFired:  http.StatusConflict,
	trigger.CodeConflict:      http.StatusConflict,
	trigger.CodeSuperseded:    http.StatusConflict,
	trigger.CodeQuotaExceeded: http.StatusTooManyRequests,
	trigger.CodeOverloaded:    http.StatusServiceUnavailable,
	trigger.CodeMisrouted:     http.StatusServiceUnavailable,
	trigger.CodeNotOwner:      http.StatusServiceUnavailable,
}

// Of words any error for a caller. An error of a type it does not know is a
// fault of ours: the caller learns nothing of it.
func Of(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*trigger.Error](err); ok {
		return OfTrigger(e)
	}
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		return OfTrigger(&trigger.Error{Code: trigger.Code(e.Code), Field: e.Field, Msg: e.Msg})
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", "the body is too large")
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Unavailable(err, "the partition's owner has not answered in time")
	}
	return Internal(err)
}

// Internal is a fault of ours. Only the log has its cause.
func Internal(cause error) *Problem {
	p := New(http.StatusInternalServerError, CodeInternal, "", "internal error; see the server's log")
	p.cause = cause
	return p
}

// OfTrigger words a refusal of the engine's.
func OfTrigger(e *trigger.Error) *Problem {
	status := statusOf[e.Code]
	if status == 0 {
		status = http.StatusUnprocessableEntity
	}
	p := New(status, e.Code, e.Field, e.Msg)
	if p.cause = e.Err; status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		p.RetryAfter = 1
	}
	return p
}

// InField is the problem that err is, under the name that the field has in the
// caller's request.
func InField(err error, name string) *Problem {
	p := *Of(err)
	p.Field = name
	return &p
}

// Send writes the problem as the answer.
func (p *Problem) Send(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="waterclock"`)
	}
	w.WriteHeader(p.Status)
	b, _ := json.Marshal(p)                     // it has only texts and numbers
	_, _ = w.Write(append(ShowHidden(b), '\n')) // the caller is gone if this fails
}

// ShowHidden escapes in JSON what a reader does not see or what turns a line around, such as
// U+202E, as \u202e: a problem may repeat an id of the caller's. What it decodes to stays the same.
func ShowHidden(b []byte) []byte {
	if printable.IsASCII(b) {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	for _, r := range string(b) { // valid UTF-8; all that is not ASCII stands in strings
		switch {
		case unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
