package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Codes of problems that only HTTP has, beside the contract's.
const (
	codeMalformed        trigger.Code = "malformed"          // 400: not JSON, or not one object
	codeUnauthenticated  trigger.Code = "unauthenticated"    // 401: no credential, or a bad one
	codeForbidden        trigger.Code = "forbidden"          // 403: the role does not allow it
	codeMethodNotAllowed trigger.Code = "method_not_allowed" // 405
	codeUnavailable      trigger.Code = "unavailable"        // 503: Kafka, the owner or the history is away
	codeInternal         trigger.Code = "internal"           // 500: a fault of ours, in the log
)

// Problem is an error as RFC 9457 has it. Code and Field are the contract's.
type Problem struct {
	Type       string       `json:"type" doc:"urn:waterclock:problem: and the code" example:"urn:waterclock:problem:unknown_zone"`
	Title      string       `json:"title" doc:"The HTTP status in words"`
	Status     int          `json:"status"`
	Code       trigger.Code `json:"code" doc:"What is wrong, in a word that never changes meaning" example:"unknown_zone"`
	Field      string       `json:"field,omitempty" doc:"The field at fault"`
	Detail     string       `json:"detail,omitempty" doc:"What to do, for a person"`
	TriggerID  string       `json:"trigger_id,omitempty" doc:"The trigger in question, where one was named or made"`
	State      string       `json:"state,omitempty" doc:"The trigger's state, where it is the reason"`
	ID         string       `json:"id,omitempty" doc:"In a batch: the id of the line"`
	Line       int          `json:"line,omitempty" doc:"In a batch: the line, from 1"`
	RetryAfter int          `json:"retry_after,omitempty" doc:"Seconds; the same as the header Retry-After"`

	Triggers     []string `json:"triggers,omitempty" doc:"Of a calendar: up to 5 of the caller's triggers that name it"`
	TriggerCount int64    `json:"trigger_count,omitempty" doc:"Of a calendar: how many triggers of all tenants name it"`

	allow string // 405: the header Allow
	cause error  // for the log
}

func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }
func (p *Problem) Unwrap() error { return p.cause }

func problem(status int, code trigger.Code, field, detail string) *Problem {
	return &Problem{Type: "urn:waterclock:problem:" + string(code), Title: http.StatusText(status), Status: status,
		Code: code, Field: field, Detail: detail}
}

func malformed(detail string) *Problem {
	return problem(http.StatusBadRequest, codeMalformed, "", detail)
}

func badParameter(name, detail string) *Problem {
	return problem(http.StatusBadRequest, trigger.CodeInvalid, name, detail)
}

func notFound(id string) *Problem {
	p := problem(http.StatusNotFound, trigger.CodeNotFound, "", "no such trigger")
	p.TriggerID = id
	return p
}

// ended tells of a trigger that is not there any more how it ended.
func (p *Problem) ended(st *trigger.State) *Problem {
	if p.Code == trigger.CodeNotFound && p.Field == "" && st != nil && st.Status.Finished() && shown.has(st.Status) {
		p.State = st.Status.String()
		p.Detail = "the trigger has ended: it is " + p.State
	}
	return p
}

// Unavailable says that nothing is wrong with the request: try again.
func Unavailable(cause error, detail string) *Problem {
	p := problem(http.StatusServiceUnavailable, codeUnavailable, "", detail)
	p.RetryAfter, p.cause = 1, cause
	return p
}

// statusOf maps the contract's codes; what is not in it is refused, 422.
var statusOf = map[trigger.Code]int{
	codeMalformed:             http.StatusBadRequest,
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

// asProblem words any error for a caller. What it does not know is a fault of
// ours and tells nothing.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*trigger.Error](err); ok {
		return problemOf(e)
	}
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		return problemOf(&trigger.Error{Code: trigger.Code(e.Code), Field: e.Field, Msg: e.Msg})
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", "the body is too large")
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Unavailable(err, "the partition's owner has not answered in time")
	}
	p := problem(http.StatusInternalServerError, codeInternal, "", "this should not happen; the server's log says more")
	p.cause = err
	return p
}

func problemOf(e *trigger.Error) *Problem {
	status := statusOf[e.Code]
	if status == 0 {
		status = http.StatusUnprocessableEntity
	}
	p := problem(status, e.Code, e.Field, e.Msg)
	if p.cause = e.Err; status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		p.RetryAfter = 1
	}
	return p
}

// inField is a problem told under the name that the caller's field has.
func inField(err error, name string) *Problem {
	p := *asProblem(err)
	p.Field = name
	return &p
}

// send writes the problem as the answer.
func (p *Problem) send(w http.ResponseWriter) {
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
	_ = json.NewEncoder(w).Encode(p) // the caller is gone if this fails
}

// seconds rounds up to what Retry-After can say.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

// sendJSON writes v as the answer.
func sendJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
	return nil
}
