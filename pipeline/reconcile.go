package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A partition's timers follow from its states, and are written in the same batch. So the
// due index and the states agree, unless there is a bug, or the disk has lost something
// without a wrong checksum. Audit finds where they do not. A turn mends it from the state:
// Audit itself writes nothing.

// LeakKind says what is wrong.
type LeakKind string

// The kinds of leaks.
const (
	// LeakTimerMissing is a timer of a state that the due index lacks: it would never fire.
	LeakTimerMissing LeakKind = "timer_missing"
	// LeakTimerStray is a timer that no state has. It would do nothing.
	LeakTimerStray LeakKind = "timer_stray"
	// LeakTimerPassed is a timer that the turns have passed without firing it.
	LeakTimerPassed LeakKind = "timer_passed"
	// LeakStateDamaged is a state that cannot be read. The store is rebuilt from topic state.
	LeakStateDamaged LeakKind = "state_damaged"
)

// Leak is one thing that is wrong.
type Leak struct {
	Kind  LeakKind
	Key   trigger.Key // "" if it is not known
	Timer trigger.Timer
	Error string // of LeakStateDamaged
}

func (l *Leak) at() statestore.DueKey {
	return statestore.DueKey{Due: max(l.Timer.Due, 0), Ref: statestore.Ref(l.Timer, l.Key)}
}

// AuditReport is what an audit has found. A timer that is overdue is no leak: the turns know
// of it. Its topic is away, or there is too much to do.
type AuditReport struct {
	Triggers int64
	Timers   int64
	Overdue  int64 // timers that are late by more than the bound
	InFlight int64 // of these, those that are the time-out of a receipt
	Leaks    []Leak
	More     int64 // leaks beyond those listed
}

// MaxLeaks bounds what a report lists.
const MaxLeaks = 1000

// An audit reads so many triggers or timers in one go, and lets others go first after that.
const (
	auditChunk = 1024
	auditPause = time.Millisecond
)

// Audit compares the due index of this partition with its states. bound is how late a timer
// may be.
func (v *View) Audit(ctx context.Context, bound time.Duration) (AuditReport, error) {
	sn, err := v.Snapshot()
	if err != nil {
		return AuditReport{}, err
	}
	defer sn.Close()
	a := audit{sn: sn, lateBy: trigger.At(v.now()) - trigger.Instant(bound.Milliseconds())}
	err = a.run(ctx)
	switch {
	case errors.Is(err, statestore.ErrClosed): // the partition moves
		return a.report, ErrNotOwner
	case errors.Is(err, statestore.ErrCorrupt):
		l := Leak{Kind: LeakStateDamaged, Error: err.Error()}
		if damaged, ok := errors.AsType[*statestore.StateError](err); ok {
			l.Key = damaged.Key
		}
		a.leak(l)
		return a.report, nil
	}
	return a.report, err
}

// audit is one under way.
type audit struct {
	sn     *statestore.Snapshot
	cursor trigger.Instant // everything due before it has fired
	lateBy trigger.Instant // what was due before it is overdue
	report AuditReport
	state  trigger.State
	own    []trigger.Timer
}

func (a *audit) run(ctx context.Context) error {
	raw, err := a.sn.Meta(recovery.MetaCursor)
	if err != nil {
		return err
	}
	a.cursor = trigger.Instant(recovery.ToNumber(raw))
	if err := a.states(ctx); err != nil {
		return err
	}
	return a.timers(ctx)
}

func (a *audit) leak(l Leak) {
	if len(a.report.Leaks) < MaxLeaks {
		l.Timer.Occurrence = strings.Clone(l.Timer.Occurrence) // it may lie in the memory of a state
		a.report.Leaks = append(a.report.Leaks, l)
	} else {
		a.report.More++
	}
}

// states looks for the timers of every state.
func (a *audit) states(ctx context.Context) error {
	for after, more := trigger.Key(""), true; more; {
		var err error
		after, more, err = a.sn.AuditStates(after, auditChunk, a.auditState)
		if err != nil {
			return err
		}
		if wait.For(ctx, auditPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (a *audit) auditState(key trigger.Key, value []byte, has func(trigger.Timer) (bool, error)) (bool, error) {
	if err := a.decode(key, value); err != nil {
		return false, err
	}
	a.report.Triggers++
	for _, t := range a.own {
		found, err := has(t)
		if err != nil {
			return false, err
		}
		if !found {
			a.leak(Leak{Kind: LeakTimerMissing, Key: key, Timer: t})
		}
	}
	return true, nil
}

// timers looks for the state of every timer.
func (a *audit) timers(ctx context.Context) error {
	for after, more := (statestore.DueKey{}), true; more; {
		var err, bad error
		after, more, err = a.sn.AuditTimers(after, auditChunk, func(at statestore.DueKey, value []byte) bool {
			bad = a.auditTimer(at, value)
			return bad == nil
		})
		if err := errors.Join(err, bad); err != nil {
			return err
		}
		if wait.For(ctx, auditPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (a *audit) auditTimer(at statestore.DueKey, value []byte) error {
	priority, key, kind, occurrence, _ := statestore.ParseRef(at.Ref)
	t := trigger.Timer{Due: at.Due, Priority: priority, Kind: kind, Occurrence: occurrence}
	a.report.Timers++
	a.own = a.own[:0]
	if value != nil {
		if err := a.decode(key, value); err != nil {
			return err
		}
	}
	switch {
	case !hasTimer(a.own, t):
		a.leak(Leak{Kind: LeakTimerStray, Key: key, Timer: t})
	case t.Due < a.cursor:
		a.leak(Leak{Kind: LeakTimerPassed, Key: key, Timer: t})
	case t.Due < a.lateBy:
		a.report.Overdue++
		if a.state.WaitsForReceipt(t) {
			a.report.InFlight++
		}
	}
	return nil
}

func (a *audit) decode(key trigger.Key, value []byte) error {
	if err := topics.DecodeStateInto(&a.state, key, value); err != nil {
		return fmt.Errorf("decode state of %q: %w", key, err)
	}
	a.own = a.state.Timers(a.own)
	return nil
}

// hasTimer finds a timer as the due index spells it: before 1970 is 1970.
func hasTimer(timers []trigger.Timer, t trigger.Timer) bool {
	return slices.ContainsFunc(timers, func(own trigger.Timer) bool {
		own.Due = max(own.Due, 0)
		return own == t
	})
}
