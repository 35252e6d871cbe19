package trigger

// Code names an error. Codes are API and never change their meaning
// (docs/formats/rejected.md).
type Code string

// The codes, and what a caller can do about each.
const (
	CodeInvalid            Code = "invalid"             // fix the field; retrying cannot help
	CodeInvalidKey         Code = "invalid_key"         // the record key is no trigger key
	CodeNotACommand        Code = "not_a_command"       // neither spelling of a command
	CodeAmbiguousTombstone Code = "ambiguous_tombstone" // null value beside wc- headers other than cancel
	CodeUnknownField       Code = "unknown_field"       // a field we do not know; the message suggests one
	CodeUnknownOp          Code = "unknown_op"          // an op we do not know; the message suggests one
	CodeUnknownZone        Code = "unknown_zone"        // not an IANA name in the active tz release
	CodeUnknownChannel     Code = "unknown_channel"     // channels.auto_create is off, or 100 exist
	CodeForbiddenChannel   Code = "forbidden_channel"   // the tenant may not use it
	CodeForbiddenURL       Code = "forbidden_url"       // the callback's origin is not allowed
	CodeInvalidRule        Code = "invalid_rule"        // the recurrence has no meaning
	// implementations disagree on it; the message has the clear form
	CodeDisputedRule        Code = "disputed_rule"
	CodePeriodTooShort      Code = "period_too_short"     // fires more often than limits.min_period
	CodeNoOccurrences       Code = "no_occurrences"       // the rule never yields an instant
	CodeConflictingTime     Code = "conflicting_time"     // not exactly one of delay, fire_at, recurrence
	CodeInThePast           Code = "in_the_past"          // over a year ago
	CodeBeyondHorizon       Code = "beyond_horizon"       // over 10 years of delay or 100 years ahead
	CodeTooLarge            Code = "too_large"            // payload, headers or record over a limit
	CodeNotFound            Code = "not_found"            // no such trigger, or it is finished
	CodeAlreadyFired        Code = "already_fired"        // too late to change
	CodeConflict            Code = "conflict"             // if_revision or if_absent does not hold
	CodeIdempotencyConflict Code = "idempotency_conflict" // the same idempotency_key with other content
	CodeSuperseded          Code = "superseded"           // a later command of the key was applied first
	CodeMisrouted           Code = "misrouted"            // its right partition could not be found
	CodeQuotaExceeded       Code = "quota_exceeded"       // the tenant's limit; the message names it
	CodeOverloaded          Code = "overloaded"           // the partition's limit; try again later
	CodeNotOwner            Code = "not_owner"            // the partition moved; try again within a second
	CodeUnsupported         Code = "unsupported"          // known to the contract, not to this release
)

// Known reports whether c is one of the above. A code read from a record may be any text.
func (c Code) Known() bool { return codes[c] }

var codes = map[Code]bool{
	CodeInvalid:             true,
	CodeInvalidKey:          true,
	CodeNotACommand:         true,
	CodeAmbiguousTombstone:  true,
	CodeUnknownField:        true,
	CodeUnknownOp:           true,
	CodeUnknownZone:         true,
	CodeUnknownChannel:      true,
	CodeForbiddenChannel:    true,
	CodeForbiddenURL:        true,
	CodeInvalidRule:         true,
	CodeDisputedRule:        true,
	CodePeriodTooShort:      true,
	CodeNoOccurrences:       true,
	CodeConflictingTime:     true,
	CodeInThePast:           true,
	CodeBeyondHorizon:       true,
	CodeTooLarge:            true,
	CodeNotFound:            true,
	CodeAlreadyFired:        true,
	CodeConflict:            true,
	CodeIdempotencyConflict: true,
	CodeSuperseded:          true,
	CodeMisrouted:           true,
	CodeQuotaExceeded:       true,
	CodeOverloaded:          true,
	CodeNotOwner:            true,
	CodeUnsupported:         true,
}

// Error is the only error type that crosses a package boundary on its way to
// a caller. Field names the contract's field at fault; Msg is for a person
// and says what to do; Err is for our log and never leaves the process.
type Error struct {
	Code  Code
	Field string
	Msg   string
	Err   error
}

func (e *Error) Error() string {
	s := string(e.Code)
	if e.Field != "" {
		s += " (" + e.Field + ")"
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// invalid is what is wrong with a field of a command.
func invalid(field, msg string) *Error { return &Error{Code: CodeInvalid, Field: field, Msg: msg} }
