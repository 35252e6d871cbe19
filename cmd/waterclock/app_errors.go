package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/trigger"
)

// The exit codes (docs/cli.md).
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitConflict = 4
	exitLoss     = 5 // data is lost, or would be lost
)

// failure is the only error type that verbs create. Msg says what to do, Exit is the exit code,
// and Err is the cause, if there is one.
type failure struct {
	Exit    int
	Msg     string
	Err     error
	Passing bool // the API is away, or its answer broke off: a moment later it may be back
}

func (f *failure) Error() string {
	switch {
	case f.Err == nil:
		return f.Msg
	case f.Msg == "":
		return f.Err.Error()
	}
	return f.Msg + ": " + f.Err.Error()
}

func (f *failure) Unwrap() error { return f.Err }

func usagef(format string, args ...any) error {
	return &failure{Exit: exitUsage, Msg: fmt.Sprintf(format, args...)}
}

func failf(format string, args ...any) error {
	return &failure{Exit: exitFailed, Msg: fmt.Sprintf(format, args...)}
}

// refused is the error for a refusal by the engine or the API, by its code.
func refused(code, msg string) error {
	if msg == "" {
		msg = "no reason given"
	}
	return &failure{Exit: exitOfCode(trigger.Code(code)), Msg: code + ": " + msg}
}

// refusedBy turns an error of package calendar or trigger into a refusal.
func refusedBy(err error) error {
	if t, ok := errors.AsType[*trigger.Error](err); ok {
		return refused(string(t.Code), strings.TrimPrefix(t.Field+": "+t.Msg, ": "))
	}
	var e *calendar.Error
	if errors.As(err, &e) {
		return refused(string(e.Code), strings.TrimPrefix(e.Field+": "+e.Msg, ": "))
	}
	return err
}

// exits maps the contract's codes to exit codes. exitUsage: the request must change, because it
// can never succeed as it is. exitNotFound: something does not exist. exitConflict: the current
// state does not allow it. exitFailed: the same request may succeed later.
var exits = map[trigger.Code]int{
	trigger.CodeInvalid:            exitUsage,
	trigger.CodeInvalidKey:         exitUsage,
	trigger.CodeNotACommand:        exitUsage,
	trigger.CodeAmbiguousTombstone: exitUsage,
	trigger.CodeUnknownField:       exitUsage,
	trigger.CodeUnknownOp:          exitUsage,
	trigger.CodeUnknownZone:        exitUsage,
	trigger.CodeUnknownChannel:     exitUsage,
	trigger.CodeForbiddenChannel:   exitUsage,
	trigger.CodeForbiddenURL:       exitUsage,
	trigger.CodeInvalidRule:        exitUsage,
	trigger.CodeDisputedRule:       exitUsage,
	trigger.CodePeriodTooShort:     exitUsage,
	trigger.CodeNoOccurrences:      exitUsage,
	trigger.CodeConflictingTime:    exitUsage,
	trigger.CodeInThePast:          exitUsage,
	trigger.CodeBeyondHorizon:      exitUsage,
	trigger.CodeTooLarge:           exitUsage,
	trigger.CodeUnsupported:        exitUsage,

	trigger.CodeNotFound: exitNotFound,

	trigger.CodeAlreadyFired:        exitConflict,
	trigger.CodeConflict:            exitConflict,
	trigger.CodeIdempotencyConflict: exitConflict,
	trigger.CodeSuperseded:          exitConflict,

	trigger.CodeMisrouted:     exitFailed,
	trigger.CodeQuotaExceeded: exitFailed,
	trigger.CodeOverloaded:    exitFailed,
	trigger.CodeNotOwner:      exitFailed,
}

// exitOfCode returns the exit code for a contract code. It is exitFailed for codes that only the
// API uses, such as unauthenticated, and for codes of a newer engine.
func exitOfCode(code trigger.Code) int {
	if exit, known := exits[code]; known {
		return exit
	}
	return exitFailed
}

// exitOf returns the exit code of an error. Of joined errors, the first that has an exit code
// counts.
func exitOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.Exit
	case errors.Is(err, node.ErrTopics):
		return exitConflict
	}
	if _, ok := errors.AsType[*node.SettingError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// interrupted reports whether the user ended the wait.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// cause strips the path from a file error. The message around it already names the path.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
