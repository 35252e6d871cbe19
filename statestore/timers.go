package statestore

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// TimerCursor is a position in a scan of the due index: behind all timers of one trigger at one
// instant. The zero value is before everything. Without a key, it is before all timers of the
// instant and of the priority.
type TimerCursor struct {
	Due      trigger.Instant
	Priority trigger.Priority
	Key      trigger.Key
}

// behind returns the first key of table d that a scan after this position may find.
func (c TimerCursor) behind() []byte {
	b := append(appendInstant(tableDue.lower(), c.Due), byte(c.Priority))
	if c.Key == "" {
		return b
	}
	return append(append(b, c.Key...), keyEnd, 0xff) // no kind of a timer is so large
}

// ScanTimers calls f for each instant at which a trigger has timers, after a position, in the order
// in which they fire, until f returns false. state gets the trigger's encoded state. It may be
// called during f, and its result is valid until f returns.
func (sn *Snapshot) ScanTimers(after TimerCursor, f func(at TimerCursor, state func() ([]byte, error)) bool) error {
	return sn.use("snapshot: scan timers", func(db *pebble.Snapshot) error {
		var buf []byte
		last := after
		_, err := sn.walk(db, after.behind(), tableDue.upper(), func(k, value []byte) (bool, error) {
			due, ref, ok := splitDueKey(k)
			prio, key, _, _, parsed := ParseRef(string(ref))
			if !ok || !parsed {
				return false, corrupt("due key %x", k)
			}
			at := TimerCursor{due, prio, key}
			if at == last {
				return true, nil // another timer of the same instant
			}
			last = at
			return f(at, func() (_ []byte, err error) {
				if len(value) > 0 {
					return value, nil // this timer is the home of the state
				}
				buf, err = indexed(db, k, key, buf)
				return buf, err
			}), nil
		})
		return err
	})
}
