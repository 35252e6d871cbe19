package statestore

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// StateReader is Store.Get for many keys. It sees the store as it was when the reader was made, so
// make one per turn.
type StateReader struct {
	store *Store
	gets  int
	open  *homeReader // nil until there were fewGets
}

// fewGets is how many Gets cost less than opening iterators. Get opens the files of each level anew.
// When a store has many files, that is most of what it costs.
const fewGets = 4

// NewStateReader makes a reader. Close the reader before the store, and use it no longer than up to
// the next Commit.
func (s *Store) NewStateReader() *StateReader { return &StateReader{store: s} }

// Get is Store.Get.
func (r *StateReader) Get(key trigger.Key, buf []byte) ([]byte, error) {
	if known, err := r.store.knows(key); !known {
		return nil, err
	}
	if r.gets++; r.gets <= fewGets {
		return get(r.store.db, key, buf)
	}
	if r.open == nil {
		var err error
		if r.open, err = r.store.openHomes(); err != nil {
			return nil, failed("get", err)
		}
	}
	return get(r.open, key, buf)
}

// Close frees the reader.
func (r *StateReader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.close()
	r.open = nil
	return failed("close state reader", err)
}

// homeReader is a getter whose files stay open. Each iterator stays where the last key was found, and
// the next is often near.
type homeReader struct {
	pointers *pebble.Iterator // table t
	homes    *pebble.Iterator // tables d and y
}

func (s *Store) openHomes() (*homeReader, error) {
	pointers, err := s.iter(tableKey, tableKey.lower())
	if err != nil {
		return nil, err
	}
	homes, err := s.iter(tableDone, tableDue.lower())
	if err != nil {
		return nil, joinClose(err, pointers)
	}
	return &homeReader{pointers, homes}, nil
}

// Get is that of Pebble. The value is valid until the next call.
func (r *homeReader) Get(key []byte) ([]byte, io.Closer, error) {
	it := r.homes
	if table(key[0]) == tableKey {
		it = r.pointers
	}
	if !it.SeekPrefixGE(key) {
		if err := it.Error(); err != nil {
			return nil, nil, err
		}
		return nil, nil, pebble.ErrNotFound
	}
	v, err := it.ValueAndErr()
	return v, nothing{}, err
}

func (r *homeReader) close() error { return errors.Join(r.pointers.Close(), r.homes.Close()) }

// nothing is closed after each value.
type nothing struct{}

func (nothing) Close() error { return nil }
