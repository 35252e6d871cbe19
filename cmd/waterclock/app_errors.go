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
	exitLoss     = 5 // something is lost, or would be
)

// failure is the only error a verb makes itself: a sentence that says what to
// do, and the exit code. Err is the cause, if there is one.
type failure struct {
	Exit int
	Msg  string
	Err  error
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

// refused is what the engine or the API said no to, by its code.
func refused(code, msg string) error {
	if msg == "" {
		msg = "no reason given"
	}
	return &failure{Exit: exitOfCode(trigger.Code(code)), Msg: code + ": " + msg}
}

// refusedBy words what package calendar said no to.
func refusedBy(err error) error {
	var e *calendar.Error
	if errors.As(err, &e) {
		return refused(string(e.Code), strings.TrimPrefix(e.Field+": "+e.Msg, ": "))
	}
	return err
}

// exits sorts the contract's codes: what has to be written otherwise, because
// the same could never be obeyed here; what is not there; what stands in the
// way; and what may well be obeyed at another time.
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

// exitOfCode is exitFailed, too, for what only the API says, such as
// unauthenticated, and for what a newer engine may.
func exitOfCode(code trigger.Code) int {
	if exit, known := exits[code]; known {
		return exit
	}
	return exitFailed
}

// exitOf is the exit code of an error. Of several joined ones the first with
// a code of its own counts.
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

// interrupted says that the user, not a fault, ended a wait.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// cause is an error without the path that the sentence around it names.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
