package calendar

import (
	"fmt"
)

// Code says what is wrong in a way that never changes meaning; it is API
// (docs/formats/rejected.md). The text is the contract's.
type Code string

// The codes this package uses, and what a caller can do about each.
const (
	CodeInvalid         Code = "invalid"          // the field cannot be read; Msg says what to write instead
	CodeUnknownField    Code = "unknown_field"    // a field nobody knows; Msg suggests one
	CodeUnknownZone     Code = "unknown_zone"     // not an IANA name in this release
	CodeUnsupported     Code = "unsupported"      // known to the contract, not here
	CodeInvalidRule     Code = "invalid_rule"     // the recurrence has no meaning
	CodeDisputedRule    Code = "disputed_rule"    // implementations disagree; Msg has a clear form
	CodePeriodTooShort  Code = "period_too_short" // fires more often than Limits.MinPeriod
	CodeNoOccurrences   Code = "no_occurrences"   // nothing in 400 years
	CodeConflictingTime Code = "conflicting_time" // two time fields that exclude each other
	CodeBeyondHorizon   Code = "beyond_horizon"   // over 10 years of delay, or first due after the horizon
)

// Error is the only error type this package returns. Field is a field name of
// the contract ("recurrence", "timezone", …), Msg is for a person and says
// what to write instead, Pos is the byte offset of the fault in the field's
// text, or -1.
type Error struct {
	Code  Code
	Field string
	Msg   string
	Pos   int
}

func (e *Error) Error() string {
	s := string(e.Code)
	if e.Field != "" {
		s += " (" + e.Field + ")"
	}
	return s + ": " + e.Msg
}

// fail builds an Error without a position.
func fail(code Code, field, format string, args ...any) *Error {
	return &Error{Code: code, Field: field, Msg: fmt.Sprintf(format, args...), Pos: -1}
}

// failAt builds an Error that points into the field's text.
func failAt(code Code, field string, pos int, format string, args ...any) *Error {
	return &Error{
		Code: code, Field: field, Pos: pos,
		Msg: fmt.Sprintf(format, args...) + fmt.Sprintf(" (at character %d)", pos+1),
	}
}

// orElse is a hint, or the second one where there is none.
func orElse(hint, other string) string {
	if hint == "" {
		return other
	}
	return hint
}

// clip shortens text quoted in a message; a hostile field may be long.
func clip(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q…", s[:40])
	}
	return fmt.Sprintf("%q", s)
}
