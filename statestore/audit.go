package statestore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// AuditTimers calls f for each timer after a position, in the order of the due index. It passes
// the state of the timer's trigger, or nil if there is none. It stops when f returns false, or
// after most timers. more reports whether there are timers after next. value is valid during the
// call. A state to which no trigger points is ErrCorrupt, because its timer would fire. A fault
// in the state of one trigger is a *StateError.
func (sn *Snapshot) AuditTimers(after DueKey, most int, f func(at DueKey, value []byte) bool,
) (next DueKey, more bool, err error) {
	err = sn.use("audit timers", func(db *pebble.Snapshot) error {
		var buf []byte
		_, err := sn.walk(db, after.behind(), tableDue.upper(), func(k, home []byte) (bool, error) {
			due, text, ok := splitDueKey(k)
			at := DueKey{Due: due, Ref: string(text)}
			_, key, _, _, parsed := ParseRef(at.Ref)
			if !ok || !parsed {
				return false, corrupt("due key %x", k)
			}
			value, err := get(db, key, buf)
			switch {
			case err != nil:
				return false, &StateError{key, err}
			case value != nil:
				buf = value
			case len(home) > 0:
				return false, &StateError{key, corrupt("the state at due key %x belongs to no trigger", k)}
			}
			next, most = at, most-1
			more = most <= 0
			return f(at, value) && !more, nil
		})
		return err
	})
	return next, more, err
}

// AuditStates calls f for each trigger after a key, in the order of keys. It stops when f returns
// false, or after most triggers. more reports whether there are triggers after next. has reports
// whether a timer of the trigger is in the due index. value is valid during the call. A state
// that cannot be read is a *StateError.
func (sn *Snapshot) AuditStates(after trigger.Key, most int,
	f func(key trigger.Key, value []byte, has func(trigger.Timer) (bool, error)) (bool, error),
) (next trigger.Key, more bool, err error) {
	err = sn.use("audit states", func(db *pebble.Snapshot) error {
		var buf []byte
		_, err := sn.walk(db, behindState(after), tableKey.upper(), func(k, _ []byte) (_ bool, err error) {
			key := trigger.Key(k[1:])
			if buf, err = get(db, key, buf); err != nil {
				return false, &StateError{key, err}
			}
			goOn, err := f(key, buf, func(t trigger.Timer) (bool, error) { return hasTimer(db, t, key) })
			next, most = key, most-1
			more = most <= 0
			return goOn && !more, err
		})
		return err
	})
	return next, more, err
}

func hasTimer(db *pebble.Snapshot, t trigger.Timer, key trigger.Key) (bool, error) {
	t.Due = max(t.Due, 0)
	_, c, err := db.Get(appendTimerKey(nil, t, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.Close()
}

// Meta returns what SetMeta had stored under a name when the snapshot was made, or nil.
func (sn *Snapshot) Meta(name string) (value []byte, err error) {
	err = sn.use("snapshot: meta", func(db *pebble.Snapshot) error {
		value, err = meta(db, name)
		return err
	})
	return value, err
}

// Rewrite writes every entry of a row that is stored already. It repairs an index that has lost
// entries.
func (b *Batch) Rewrite(row Row) {
	if err := errors.Join(row.check(), b.checkOld(&row, row.Key)); err != nil {
		b.fail(err)
		return
	}
	none := Row{Key: row.Key}
	b.was, b.is = b.was[:0], sortedTimers(b.is, row.Timers)
	b.setPointer(row.Key, pointTo(&row, b.is))
	b.putTimers(&row)
	b.putDone(&none, &row)
	b.putUser(&none, &row)
	b.putZone(&none, &row)
}

// DropTimer deletes an entry of the due index that belongs to no trigger's state.
func (b *Batch) DropTimer(at DueKey) {
	b.delete(tableDue, func(k []byte) []byte { return appendDueKey(k, at.Due, at.Ref) })
}
