package embedded

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/sinks"
)

// merger folds the words on a row where Pebble meets them, when it compacts
// and when somebody reads: to write one takes no look at those before it. The
// rows' own Merge does not mind the order.
//
// The name is that of Pebble's default, which directories of format 1 carry
// and Pebble insists on; there is no merge in them.
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

// folded is a row while its words come together. One word alone, which is most
// of them, stays as it is.
type folded[T any, R row[T]] struct {
	value []byte // the only word so far
	row   R      // nil until there are two
}

// MergeNewer adds a word that was written after those before.
func (f *folded[T, R]) MergeNewer(value []byte) error {
	more, err := f.decode(value)
	if err == nil {
		f.row.Merge(more)
	}
	return err
}

// MergeOlder adds a word that was written before those before: where both are
// of one event it is the one that stays.
func (f *folded[T, R]) MergeOlder(value []byte) error {
	more, err := f.decode(value)
	if err == nil {
		more.Merge(f.row)
		f.row = more
	}
	return err
}

// decode reads a word, and the first if nobody has yet.
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

// Finish is the row.
func (f *folded[T, R]) Finish(bool) ([]byte, io.Closer, error) {
	if f.row == nil {
		return f.value, nil, nil
	}
	return encodeRow(f.row), nil, nil
}
