package statestore

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// pointer is the value of table t: the home of a trigger's state.
//
//	┌──────┬────────────────────────────────────────────────┐
//	│ 0x01 │ state                                          │ here
//	├──────┼──────────────┬──────────┬──────┬───────────────┤
//	│ 0x02 │ uvarint due  │ priority │ kind │ occurrence    │ under this timer in d
//	├──────┼──────────────┴──────────┴──────┴───────────────┤
//	│ 0x03 │ uvarint forgetAt                               │ in y
//	└──────┴────────────────────────────────────────────────┘
type pointer struct {
	home     home
	timer    trigger.Timer   // homeDue
	forgetAt trigger.Instant // homeDone
	state    []byte          // homeHere
}

type home byte

const (
	homeHere home = 1
	homeDue  home = 2
	homeDone home = 3
)

// pointTo returns where a row's state belongs. timers are the row's timers, sorted.
func pointTo(row *Row, timers []trigger.Timer) pointer {
	switch {
	case len(timers) > 0:
		return pointer{home: homeDue, timer: timers[0]}
	case row.ForgetAt != 0:
		return pointer{home: homeDone, forgetAt: max(row.ForgetAt, 0)}
	}
	return pointer{home: homeHere, state: row.Value}
}

// sameAs reports whether both encode to the same bytes. It is false for homeHere, where the
// state may differ.
func (p pointer) sameAs(q pointer) bool {
	return p.home == q.home && p.home != homeHere && p.timer == q.timer && p.forgetAt == q.forgetAt
}

func (p pointer) appendTo(b []byte) []byte {
	b = append(b, byte(p.home))
	switch p.home {
	case homeDue:
		b = binary.AppendUvarint(b, uint64(p.timer.Due))
		b = append(b, byte(p.timer.Priority), byte(p.timer.Kind))
		return append(b, p.timer.Occurrence...)
	case homeDone:
		return binary.AppendUvarint(b, uint64(p.forgetAt))
	}
	return append(b, p.state...)
}

// parsePointer decodes what appendTo wrote. state aliases b. ok is false for other bytes.
func parsePointer(b []byte) (p pointer, ok bool) {
	if len(b) < 2 {
		return pointer{}, false
	}
	p.home, b = home(b[0]), b[1:]
	if p.home == homeHere {
		p.state = b
		return p, true
	}
	at, n := binary.Uvarint(b)
	if n <= 0 || trigger.Instant(at) < 0 || n != uvarintLen(at) {
		return pointer{}, false
	}
	b = b[n:]
	switch p.home {
	case homeDue:
		if len(b) < 2 {
			return pointer{}, false
		}
		p.timer = trigger.Timer{
			Due: trigger.Instant(at), Priority: trigger.Priority(b[0]),
			Kind: trigger.TimerKind(b[1]), Occurrence: string(b[2:]),
		}
		return p, true
	case homeDone:
		p.forgetAt = trigger.Instant(at)
		return p, len(b) == 0
	}
	return pointer{}, false
}

// uvarintLen returns the length of the shortest encoding of v. Only that one is valid.
func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// appendKey appends the key of the entry to which p points. p is not homeHere.
func (p pointer) appendKey(b []byte, key trigger.Key) []byte {
	if p.home == homeDue {
		return appendTimerKey(b, p.timer, key)
	}
	return appendDoneKey(b, p.forgetAt, key)
}

// compareTimers orders the timers of one trigger like their keys in d.
func compareTimers(a, b trigger.Timer) int {
	if c := cmp.Compare(a.Due, b.Due); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return cmp.Compare(a.Occurrence, b.Occurrence)
}

// sortedTimers copies timers into buf in the order of their keys.
func sortedTimers(buf, timers []trigger.Timer) []trigger.Timer {
	buf = append(buf[:0], timers...)
	for i := range buf {
		buf[i].Due = max(buf[i].Due, 0)
	}
	if len(buf) > 1 {
		slices.SortFunc(buf, compareTimers)
	}
	return buf
}
