package statestore

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// Snapshot is the store as it was when Store.Snapshot was called. One goroutine at a time uses
// it. Close it soon, because Pebble keeps all data that it sees on disk. The functions that its
// scans call must not call the store or a snapshot. If a Close waited in between, that would be a
// deadlock.
type Snapshot struct {
	store *Store
	db    *pebble.Snapshot // nil: closed; guarded by store.mu
}

// Snapshot may be called from any goroutine, while the owner writes or closes. It waits while the
// owner commits a batch of about half a memtable or more. On a closed store every method of the
// snapshot returns ErrClosed.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sn := &Snapshot{store: s}
	if s.db != nil {
		s.publishing.RLock()
		sn.db = s.db.NewSnapshot()
		s.publishing.RUnlock()
		s.snapshots.add(sn)
	}
	return sn
}

// Close releases the snapshot. A second Close does nothing.
func (sn *Snapshot) Close() error {
	sn.store.mu.RLock()
	defer sn.store.mu.RUnlock()
	return sn.store.snapshots.close(sn)
}

// use runs f and keeps the store open meanwhile.
func (sn *Snapshot) use(verb string, f func(db *pebble.Snapshot) error) error {
	sn.store.mu.RLock()
	defer sn.store.mu.RUnlock()
	if sn.db == nil {
		return fmt.Errorf("%s: %w", verb, ErrClosed)
	}
	return failed(verb, f(sn.db))
}

// Get returns the encoded state of a key, appended to buf[:0], or nil if the key is unknown.
func (sn *Snapshot) Get(key trigger.Key, buf []byte) (value []byte, err error) {
	err = sn.use("snapshot", func(db *pebble.Snapshot) error {
		value, err = get(db, key, buf)
		return err
	})
	return value, err
}

// Counts returns the numbers of pending and finished triggers in the snapshot.
func (sn *Snapshot) Counts() (pending, done int64, err error) {
	err = sn.use("snapshot: count", func(db *pebble.Snapshot) error {
		v, err := meta(db, metaCounts)
		if err != nil || v == nil {
			return err
		}
		n, ok := parseCounts(v)
		if !ok {
			return corrupt("counts are %x", v)
		}
		pending, done = n.pending, n.done
		return nil
	})
	return pending, done, err
}

// Scan calls f for each trigger after a key, in the order of keys, until f
// returns false. value is valid during the call.
func (sn *Snapshot) Scan(after trigger.Key, f func(key trigger.Key, value []byte) bool) error {
	return sn.scan("snapshot: scan", behindState(after), tableKey.upper(), func(k []byte) (trigger.Key, bool) {
		return trigger.Key(k[1:]), len(k) > 1
	}, func(_ []byte, key trigger.Key, value []byte) bool { return f(key, value) })
}

// ScanPending calls f for the key of each unfinished trigger, in the order of keys, until f
// returns false. It reads no state: where a state lies says whether the trigger is finished.
func (sn *Snapshot) ScanPending(f func(key trigger.Key) bool) error {
	return sn.use("snapshot: scan pending", func(db *pebble.Snapshot) error {
		_, err := sn.walk(db, tableKey.lower(), tableKey.upper(), func(k, value []byte) (bool, error) {
			if len(k) < 2 || len(value) == 0 {
				return false, corrupt("pointer %x of key %x", value, k)
			}
			return home(value[0]) == homeDone || f(trigger.Key(k[1:])), nil
		})
		return err
	})
}

// UserCursor is a position in a user's list. The zero value is before everything.
type UserCursor struct {
	Due trigger.Instant // NoDue: paused or finished
	Key trigger.Key
}

// ScanUser calls f for each trigger of a user after a position, by next due time and then by
// key, until f returns false. Triggers without a due time come last. value is valid during
// the call.
func (sn *Snapshot) ScanUser(tenant, user string, after UserCursor, f func(at UserCursor, value []byte) bool) error {
	prefix := appendUser(nil, tenant, user)
	from := prefix
	if after != (UserCursor{}) {
		from = append(appendUserKey(nil, tenant, user, after.Due, after.Key), 0)
	}
	head := len(prefix) + 8
	return sn.scan("snapshot: scan user", from, behind(prefix), func(k []byte) (trigger.Key, bool) {
		return trigger.Key(k[min(head, len(k)):]), len(k) > head
	}, func(k []byte, key trigger.Key, value []byte) bool {
		return f(UserCursor{Due: instant(k[len(prefix):]), Key: key}, value)
	})
}

// Zones calls f for each zone that has triggers, until f returns false.
func (sn *Snapshot) Zones(f func(zone string) bool) error {
	return sn.use("snapshot: zones", func(db *pebble.Snapshot) error {
		it, err := db.NewIter(&pebble.IterOptions{LowerBound: tableZone.lower(), UpperBound: tableZone.upper()})
		if err != nil {
			return err
		}
		for it.First(); it.Valid() && !sn.store.closing.Load(); {
			end := bytes.IndexByte(it.Key(), keyEnd)
			if end < 1 {
				return joinClose(corrupt("zone key %x", it.Key()), it)
			}
			zone := string(it.Key()[1:end])
			if !f(unname(zone)) {
				break
			}
			it.SeekGE(append([]byte{byte(tableZone)}, zone+"\x01"...))
		}
		return it.Close()
	})
}

// ScanZone calls f for each trigger of a zone after a key, in the order of
// keys, until f returns false. value is valid during the call.
func (sn *Snapshot) ScanZone(zone string, after trigger.Key, f func(key trigger.Key, value []byte) bool) error {
	prefix := appendZone(nil, zone)
	from := appendZoneKey(nil, zone, after)
	if after != "" {
		from = append(from, 0)
	}
	return sn.scan("snapshot: scan zone", from, behind(prefix), func(k []byte) (trigger.Key, bool) {
		return trigger.Key(k[len(prefix):]), len(k) > len(prefix)
	}, func(_ []byte, key trigger.Key, value []byte) bool { return f(key, value) })
}

// ScanLive calls f for each timer of a live occurrence after a position, with the trigger's
// state, in the order of the due index. It ends when f returns false, or after most timers of
// any kind. more reports whether there are timers after next. value is valid during the call.
func (sn *Snapshot) ScanLive(after DueKey, most int,
	f func(due trigger.Instant, occurrence string, key trigger.Key, value []byte) bool,
) (next DueKey, more bool, err error) {
	err = sn.use("snapshot: scan live", func(db *pebble.Snapshot) error {
		var buf []byte
		_, err := sn.walk(db, after.behind(), tableDue.upper(), func(k, _ []byte) (_ bool, err error) {
			due, text, ok := splitDueKey(k)
			ref := string(text)
			_, key, kind, occurrence, parsed := ParseRef(ref)
			if !ok || !parsed {
				return false, corrupt("due key %x", k)
			}
			if kind == trigger.TimerLive {
				if buf, err = indexed(db, k, key, buf); err != nil || !f(due, occurrence, key, buf) {
					return false, err
				}
			}
			if most--; most <= 0 {
				next, more = DueKey{due, ref}, true
			}
			return !more, nil
		})
		return err
	})
	return next, more, err
}

// behind returns the first key after all keys that begin with prefix. prefix ends in keyEnd.
func behind(prefix []byte) []byte {
	b := bytes.Clone(prefix)
	b[len(b)-1] = keyEnd + 1
	return b
}

// scan walks the keys of one index in [from, to), gets the trigger key from each, and calls f
// with the trigger's state.
func (sn *Snapshot) scan(verb string, from, to []byte, keyOf func(k []byte) (trigger.Key, bool),
	f func(k []byte, key trigger.Key, value []byte) bool,
) error {
	return sn.use(verb, func(db *pebble.Snapshot) error {
		var buf []byte
		_, err := sn.walk(db, from, to, func(k, _ []byte) (_ bool, err error) {
			key, ok := keyOf(k)
			if !ok {
				return false, corrupt("index key %x", k)
			}
			if buf, err = indexed(db, k, key, buf); err != nil {
				return false, err
			}
			return f(k, key, buf), nil
		})
		return err
	})
}

// indexed gets the state of a trigger that an index entry k names. The state must exist.
func indexed(db *pebble.Snapshot, k []byte, key trigger.Key, buf []byte) ([]byte, error) {
	value, err := get(db, key, buf)
	if err == nil && value == nil {
		err = corrupt("index key %x is of no trigger", k)
	}
	return value, err
}

// snapshots are the open snapshots of a store.
type snapshots struct {
	mu   sync.Mutex
	open map[*Snapshot]struct{}
}

func (ss *snapshots) add(sn *Snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.open == nil {
		ss.open = map[*Snapshot]struct{}{}
	}
	ss.open[sn] = struct{}{}
}

// close closes one snapshot. The store stays open.
func (ss *snapshots) close(sn *Snapshot) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sn.db == nil {
		return nil
	}
	delete(ss.open, sn)
	err := sn.db.Close()
	sn.db = nil
	return failed("close snapshot", err)
}

// closeAll closes all snapshots. The caller must hold the store exclusively.
func (ss *snapshots) closeAll() (errs []error) {
	for sn := range ss.open {
		errs = append(errs, ss.close(sn))
	}
	return errs
}
