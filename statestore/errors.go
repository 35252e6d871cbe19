package statestore

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// The errors that a caller can tell apart. Others come from the disk or the operating system,
// and may pass.
var (
	// ErrCorrupt: the store is damaged. Close it, Quarantine its directory and
	// rebuild it from topic state.
	ErrCorrupt = errors.New("the store is corrupt")

	// ErrFormat: the directory holds another format. As for ErrCorrupt.
	ErrFormat = errors.New("the store has another format")

	// ErrInUse: another process, or this one, has the directory open.
	ErrInUse = errors.New("the store is in use")

	// ErrClosed: the store was closed, or wiped while a snapshot was held.
	ErrClosed = errors.New("the store is closed")
)

// failed wraps an error of Pebble with the verb that failed, and marks damage as ErrCorrupt.
func failed(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case isDamage(err) && !errors.Is(err, ErrCorrupt):
		return fmt.Errorf("%s: %w: %w", verb, ErrCorrupt, err)
	case errors.Is(err, pebble.ErrClosed):
		return fmt.Errorf("%s: %w", verb, ErrClosed)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// isDamage reports whether a checksum is wrong or a sector cannot be read. Neither passes by
// itself.
func isDamage(err error) bool { return pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) }

// corrupt is an ErrCorrupt that this package found, not a checksum.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// StateError is what is wrong with the state of one trigger.
type StateError struct {
	Key trigger.Key
	Err error
}

func (e *StateError) Error() string { return fmt.Sprintf("state of %q: %v", e.Key, e.Err) }
func (e *StateError) Unwrap() error { return e.Err }
