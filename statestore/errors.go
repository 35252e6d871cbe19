package statestore

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// The errors that a caller can distinguish. Others come from the disk or the operating system,
// and may be temporary.
var (
	// ErrCorrupt means that the store is damaged. Close it, Quarantine its directory and rebuild
	// it from topic state.
	ErrCorrupt = errors.New("the store is corrupt")

	// ErrFormat means that the directory holds another format. Handle it like ErrCorrupt.
	ErrFormat = errors.New("the store has another format")

	// ErrInUse means that this process or another has the directory open.
	ErrInUse = errors.New("the store is in use")

	// ErrClosed means that the store was closed, or was wiped while a snapshot was open.
	ErrClosed = errors.New("the store is closed")
)

// failed wraps an error of Pebble with the name of the operation, and marks damage as ErrCorrupt.
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

// isDamage reports whether a checksum is wrong or a sector cannot be read. Neither goes away by
// itself.
func isDamage(err error) bool { return pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) }

// corrupt makes an ErrCorrupt for damage that this package found without a checksum.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// StateError is a fault in the state of one trigger.
type StateError struct {
	Key trigger.Key
	Err error
}

func (e *StateError) Error() string { return fmt.Sprintf("state of %q: %v", e.Key, e.Err) }
func (e *StateError) Unwrap() error { return e.Err }
