package statestore

import (
	"errors"
	"fmt"

	"github.com/waterclock/waterclock/trigger"
)

// Row is what the store must know of one trigger's state.
type Row struct {
	Key    trigger.Key
	Value  []byte          // the encoded state; never empty
	Timers []trigger.Timer // in any order; empty when paused or finished

	// ForgetAt is when a finished trigger's record ends. 0 means that it is not finished.
	ForgetAt trigger.Instant

	// Tenant and User put the trigger into the list by user, Zone into the list by zone. If User
	// or Zone is empty, the trigger is not in that list.
	Tenant, User, Zone string
}

// finished reports whether a row counts as done rather than pending.
func (r *Row) finished() bool { return r.ForgetAt != 0 && len(r.Timers) == 0 }

// nextDue returns the sort key in the list by user. timers are sorted.
func nextDue(timers []trigger.Timer) trigger.Instant {
	if len(timers) == 0 {
		return NoDue
	}
	return timers[0].Due
}

// check refuses rows that would make keys ambiguous or the state unreadable. Package topics
// refuses such keys and states, so an error is a bug of the caller.
func (r *Row) check() error {
	var errs []error
	if r.Key == "" || len(r.Key) > trigger.MaxKeyBytes {
		errs = append(errs, fmt.Errorf("a key of %d bytes", len(r.Key)))
	}
	for i := range len(r.Key) {
		if r.Key[i] == keyEnd {
			errs = append(errs, errors.New("a key with a byte 0"))
			break
		}
	}
	if len(r.Value) == 0 {
		errs = append(errs, errors.New("an empty state"))
	}
	for _, t := range r.Timers {
		if t.Kind == 0 {
			errs = append(errs, errors.New("a timer without kind"))
		}
	}
	if errs == nil {
		return nil
	}
	return fmt.Errorf("row %q: %w", r.Key, errors.Join(errs...))
}
