package statestore

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// DueKey is a position in the due index.
type DueKey struct {
	Due trigger.Instant
	Ref string
}

// behind returns the first key that a scan after this position may find.
func (k DueKey) behind() []byte {
	b := appendDueKey(nil, k.Due, k.Ref)
	if k.Ref != "" {
		b = append(b, 0) // the next possible key
	}
	return b
}

// ScanDue calls f for each timer after a position, in order, until f returns false. f may
// keep ref. The zero DueKey is before everything.
func (s *Store) ScanDue(after DueKey, f func(due trigger.Instant, ref string) bool) error {
	fromStart := after.Due <= s.firstDue
	it, err := s.iter(tableDue, s.dueBound(after))
	if err != nil {
		return failed("scan due", err)
	}
	for it.First(); it.Valid(); it.Next() {
		due, ref, ok := splitDueKey(it.Key())
		if !ok {
			return failed("scan due", joinClose(corrupt("due key %x", it.Key()), it))
		}
		if fromStart && after.Ref == "" { // all entries before it are deleted; a scan from here skips their tombstones
			s.firstDue, fromStart = due, false
		}
		if !f(due, string(ref)) {
			break
		}
	}
	return failed("scan due", it.Close())
}

// dueBound returns the lower bound of a scan after a position.
func (s *Store) dueBound(after DueKey) []byte {
	if after.Due < s.firstDue {
		after = DueKey{Due: s.firstDue}
	}
	return after.behind()
}

// iter opens an iterator over a table from a key.
func (s *Store) iter(t table, from []byte) (*pebble.Iterator, error) {
	if s.db == nil {
		return nil, ErrClosed
	}
	return s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: t.upper()})
}

// joinClose closes an iterator after another error.
func joinClose(err error, it *pebble.Iterator) error {
	if closeErr := it.Close(); closeErr != nil {
		return fmt.Errorf("%w (and close: %w)", err, closeErr)
	}
	return err
}

// DueReader reads states by due key. It sees the store as it was when the reader was made, so
// make one per turn.
type DueReader struct {
	it  *pebble.Iterator
	err error
	key []byte
}

// NewDueReader makes a reader. Close the reader before the store.
func (s *Store) NewDueReader() *DueReader {
	it, err := s.iter(tableDue, tableDue.lower())
	return &DueReader{it: it, err: err}
}

// Get returns the state that is stored with a timer. The state is valid until the next call.
// Calls in ascending order are cheapest: for a neighbour, the iterator moves one step. ok is
// false if the timer no longer exists. If the value is empty but not nil, the state is stored
// elsewhere: use Store.Get.
func (r *DueReader) Get(due trigger.Instant, ref string) (value []byte, ok bool, err error) {
	if r.err != nil {
		return nil, false, failed("read due", r.err)
	}
	r.key = appendDueKey(r.key[:0], due, ref)
	if !r.seek() {
		return nil, false, failed("read due", r.it.Error())
	}
	v, err := r.it.ValueAndErr()
	if err != nil {
		return nil, false, failed("read due", err)
	}
	if v == nil {
		v = []byte{}
	}
	return v, true, nil
}

// seek moves to r.key, first by trying the next entry.
func (r *DueReader) seek() bool {
	if r.it.Valid() {
		c := bytes.Compare(r.it.Key(), r.key)
		if c < 0 {
			r.it.Next()
			c = 1
			if r.it.Valid() {
				c = bytes.Compare(r.it.Key(), r.key)
			}
		}
		if c == 0 {
			return true
		}
	}
	return r.it.SeekGE(r.key) && bytes.Equal(r.it.Key(), r.key)
}

// Close frees the reader.
func (r *DueReader) Close() error {
	if r.it == nil {
		return nil
	}
	err := r.it.Close()
	r.it, r.err = nil, ErrClosed
	return failed("close due reader", err)
}
