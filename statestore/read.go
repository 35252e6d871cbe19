package statestore

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// Get returns the encoded state of a key, appended to buf[:0], or nil if the key is unknown.
// The filter in memory answers nearly all unknown keys.
func (s *Store) Get(key trigger.Key, buf []byte) ([]byte, error) {
	if known, err := s.knows(key); !known {
		return nil, err
	}
	return get(s.db, key, buf)
}

// knows asks the filter. Some keys that it knows are not there.
func (s *Store) knows(key trigger.Key) (bool, error) {
	if s.db == nil {
		return false, fmt.Errorf("get: %w", ErrClosed)
	}
	return s.known.has(s.known.hash(key)), nil
}

// getter is a database, a snapshot or a homeReader.
type getter interface {
	Get(key []byte) (value []byte, closer io.Closer, err error)
}

// get follows a key's pointer. r must not change between the two reads: it is a snapshot, or the
// caller is the owner's goroutine.
func get(r getter, key trigger.Key, buf []byte) ([]byte, error) {
	var space [keySpace]byte
	v, c, err := r.Get(appendStateKey(space[:0], key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, failed("get", err)
	}
	p, ok := parsePointer(v)
	if !ok {
		err = corrupt("the pointer of %q is %x", key, v)
	} else if p.home == homeHere {
		buf = append(buf[:0], p.state...)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, failed("get", err)
	}
	if p.home == homeHere {
		return buf, nil
	}
	return getHome(r, p, key, buf)
}

// getHome reads a state that is stored in d or y.
func getHome(r getter, p pointer, key trigger.Key, buf []byte) ([]byte, error) {
	var space [keySpace]byte
	v, c, err := r.Get(p.appendKey(space[:0], key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, failed("get", corrupt("the state of %q is not at its key", key))
	}
	if err != nil {
		return nil, failed("get", err)
	}
	if len(v) == 0 {
		err = corrupt("the state of %q is empty", key)
	}
	buf = append(buf[:0], v...)
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, failed("get", err)
	}
	return buf, nil
}

// keySpace is large enough for nearly all keys. Longer ones are allocated.
const keySpace = 160
