package statestore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// AuditTimers calls f for the timers after a place, in the order of the due index, with
// the state of their trigger, nil if there is none, until f returns false or most timers
// were read; more says that there are others behind next. value is valid during the call. A
// state that no trigger points to is ErrCorrupt: its timer would fire.
func (sn *Snapshot) AuditTimers(after DueKey, most int, f func(at DueKey, value []byte) bool,
) (next DueKey, more bool, err error) {
	from := appendDueKey(nil, after.Due, after.Ref)
	if after.Ref != "" {
		from = append(from, 0)
	}
	err = sn.auditEach("audit timers", from, tableDue.upper(), func(db *pebble.Snapshot, it *pebble.Iterator) (
		bool, error,
	) {
		due, text, ok := splitDueKey(it.Key())
		at := DueKey{Due: due, Ref: string(text)}
		_, key, _, _, parsed := ParseRef(at.Ref)
		if !ok || !parsed {
			return false, corrupt("due key %x", it.Key())
		}
		value, err := get(db, key, nil)
		if err == nil && value == nil && len(it.Value()) > 0 {
			err = corrupt("the state at due key %x is of no trigger", it.Key())
		}
		if err != nil {
			return false, err
		}
		next, most = at, most-1
		more = most <= 0
		return f(at, value) && !more, nil
	})
	return next, more, err
}

// AuditStates calls f for the triggers after a key, in the order of keys, until f returns
// false or most were read; more says that there are others behind next. has says whether
// a timer of the trigger stands in the due index. value is valid during the call.
func (sn *Snapshot) AuditStates(after trigger.Key, most int,
	f func(key trigger.Key, value []byte, has func(trigger.Timer) (bool, error)) (bool, error),
) (next trigger.Key, more bool, err error) {
	from := appendStateKey(nil, after)
	if after != "" {
		from = append(from, 0)
	}
	err = sn.auditEach("audit states", from, tableKey.upper(), func(db *pebble.Snapshot, it *pebble.Iterator) (
		bool, error,
	) {
		key := trigger.Key(it.Key()[1:])
		value, err := get(db, key, nil)
		if err != nil {
			return false, err
		}
		goOn, err := f(key, value, func(t trigger.Timer) (bool, error) { return hasTimer(db, t, key) })
		next, most = key, most-1
		more = most <= 0
		return goOn && !more, err
	})
	return next, more, err
}

// auditEach calls f at each entry in [from, to) until it returns false.
func (sn *Snapshot) auditEach(verb string, from, to []byte,
	f func(db *pebble.Snapshot, it *pebble.Iterator) (bool, error),
) error {
	return sn.use(verb, func(db *pebble.Snapshot) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			return err
		}
		for it.First(); it.Valid(); it.Next() {
			if sn.store.closing.Load() {
				return joinClose(ErrClosed, it)
			}
			goOn, err := f(db, it)
			if err != nil {
				return joinClose(err, it)
			}
			if !goOn {
				break
			}
		}
		return it.Close()
	})
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

// Meta is what SetMeta kept when the snapshot was made; nil if nothing.
func (sn *Snapshot) Meta(name string) (value []byte, err error) {
	err = sn.use("snapshot: meta", func(db *pebble.Snapshot) error {
		v, c, err := db.Get(metaKey(name))
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		value = append(value, v...)
		return c.Close()
	})
	return value, err
}

// Rewrite writes every entry of a row that is stored already, as it is. It mends an index
// that has lost some.
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
