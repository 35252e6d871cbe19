package embedded

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
)

// merger merges the updates of a row when Pebble compacts or reads it, so writing an update reads
// nothing. The rows' own Merge does not depend on the order.
//
// The name is that of Pebble's default merger. Directories of format 1 have that name, and Pebble
// requires it; they contain no merges.
var merger = &pebble.Merger{
	Name: pebble.DefaultMerger.Name,
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		switch {
		case len(key) > 0 && key[0] == tableState:
			return &folded[sinks.StateRow, *sinks.StateRow]{value: bytes.Clone(value)}, nil
		case len(key) > 0 && key[0] == tableMinute:
			return &folded[sinks.MinuteRow, *sinks.MinuteRow]{value: bytes.Clone(value)}, nil
		case len(key) > 0 && key[0] == tableNotifications:
			return &folded[sinks.NotificationRow, *sinks.NotificationRow]{value: bytes.Clone(value)}, nil
		case len(key) > 0 && key[0] == tableContent:
			return &folded[sinks.ContentRow, *sinks.ContentRow]{value: bytes.Clone(value)}, nil
		}
		return nil, fmt.Errorf("key %x is of no table that is merged: %w", key, errKey)
	},
}

// folded is a row while its updates are merged. A single update, which is the usual case, stays
// as it is.
type folded[T any, R row[T]] struct {
	value []byte // the only update so far
	row   R      // nil until there are two updates
}

// MergeNewer adds an update that was written after the earlier ones.
func (f *folded[T, R]) MergeNewer(value []byte) error {
	more, err := f.decode(value)
	if err == nil {
		f.row.Merge(more)
	}
	return err
}

// MergeOlder adds an update that was written before the earlier ones. If both are of one event,
// this one wins.
func (f *folded[T, R]) MergeOlder(value []byte) error {
	more, err := f.decode(value)
	if err == nil {
		more.Merge(f.row)
		f.row = more
	}
	return err
}

// decode decodes an update, and also the first one if that has not been decoded yet.
func (f *folded[T, R]) decode(value []byte) (more R, err error) {
	if f.row == nil {
		f.row = new(T)
		if err := decodeRow(f.value, f.row); err != nil {
			return nil, fmt.Errorf("merge row: %w", err)
		}
	}
	more = new(T)
	if err := decodeRow(value, more); err != nil {
		return nil, fmt.Errorf("merge row: %w", err)
	}
	return more, nil
}

// Finish returns the row.
func (f *folded[T, R]) Finish(bool) ([]byte, io.Closer, error) {
	if f.row == nil {
		return f.value, nil, nil
	}
	return encodeRow(f.row), nil, nil
}
