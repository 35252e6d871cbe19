package statestore

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// The errors a caller can tell apart. Everything else is the disk's or the
// operating system's, and may pass.
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

// failed wraps an error of Pebble's with the verb that failed, and marks
// damage as ErrCorrupt.
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

// isDamage says that a checksum is wrong, or that the disk does not give back what
// it was given: a sector that cannot be read does not heal.
func isDamage(err error) bool { return pebble.IsCorruptionError(err) || errors.Is(err, syscall.EIO) }

// corrupt is an ErrCorrupt found by us rather than by a checksum.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
