package statestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// Home is the position of a state in a scan that reads all states in the order in which they are
// on disk. The zero Home is before everything. States without a timer come last.
type Home struct {
	Due  DueKey      // earliest timer
	Here trigger.Key // if not "", a trigger without timers: paused
}

// ScanHomes calls f for each unfinished trigger after a home, until f returns false. It reads the
// states in one sequential pass, while a scan by key has to search for each. value is valid
// during the call.
func (sn *Snapshot) ScanHomes(after Home, f func(at Home, key trigger.Key, value []byte) bool) error {
	return sn.use("snapshot: scan homes", func(db *pebble.Snapshot) error {
		if after.Here == "" {
			if more, err := sn.scanDueHomes(db, after.Due, f); err != nil || !more {
				return err
			}
		}
		return sn.scanHere(db, after.Here, f)
	})
}

// scanDueHomes scans table d. more is false if f has returned false.
func (sn *Snapshot) scanDueHomes(db *pebble.Snapshot, after DueKey, f func(Home, trigger.Key, []byte) bool) (more bool,
	err error,
) {
	from := tableDue.lower()
	if after != (DueKey{}) {
		from = append(appendDueKey(nil, after.Due, after.Ref), 0)
	}
	return sn.walk(db, from, tableDue.upper(), func(k, value []byte) (bool, error) {
		if len(value) == 0 {
			return true, nil // another timer of a trigger that was visited before
		}
		due, ref, ok := splitDueKey(k)
		if !ok {
			return false, corrupt("due key %x", k)
		}
		at := Home{Due: DueKey{due, string(ref)}}
		_, key, _, _, ok := ParseRef(at.Due.Ref)
		if !ok {
			return false, corrupt("due key %x", k)
		}
		return f(at, key, value), nil
	})
}

// scanHere scans the states in table t.
func (sn *Snapshot) scanHere(db *pebble.Snapshot, after trigger.Key, f func(Home, trigger.Key, []byte) bool) error {
	_, err := sn.walk(db, behindState(after), tableKey.upper(), func(k, value []byte) (bool, error) {
		if len(value) < 2 || home(value[0]) != homeHere {
			return true, nil
		}
		key := trigger.Key(k[1:])
		return f(Home{Here: key}, key, value[1:]), nil
	})
	return err
}

// walk calls f for each entry in [from, to) until f returns false. more is false if it did.
func (sn *Snapshot) walk(db *pebble.Snapshot, from, to []byte, f func(k, value []byte) (bool, error)) (more bool,
	err error,
) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return false, err
	}
	for it.First(); it.Valid(); it.Next() {
		if sn.store.closing.Load() {
			return false, joinClose(ErrClosed, it)
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return false, joinClose(err, it)
		}
		more, err := f(it.Key(), value)
		if err != nil {
			return false, joinClose(err, it)
		}
		if !more {
			return false, it.Close()
		}
	}
	return true, it.Close()
}
