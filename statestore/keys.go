package statestore

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// table is the first byte of a key. doc.go lists the tables.
type table byte

const (
	tableDue  table = 'd'
	tableMeta table = 'm'
	tableKey  table = 't'
	tableUser table = 'u'
	tableDone table = 'y'
	tableZone table = 'z'
)

// tables is in the order of the bytes, because a batch is written in that order.
var tables = [...]table{tableDue, tableMeta, tableKey, tableUser, tableDone, tableZone}

// lower and upper are the bounds of all keys of a table.
func (t table) lower() []byte { return []byte{byte(t)} }
func (t table) upper() []byte { return []byte{byte(t) + 1} }

// keyEnd ends a trigger key, and a tenant, user or zone: none contains it
// (trigger.ParseKey refuses control characters; appendName escapes them).
const keyEnd = 0x00

// NoDue stands for the next due time of paused and finished triggers in the list by user.
// They come after all others.
const NoDue trigger.Instant = math.MaxInt64

// appendInstant encodes an instant so that the order of bytes is that of time. Everything
// before 1970 counts as 1970. NoDue is after every instant.
func appendInstant(b []byte, i trigger.Instant) []byte {
	if i == NoDue {
		return binary.BigEndian.AppendUint64(b, math.MaxUint64)
	}
	return binary.BigEndian.AppendUint64(b, uint64(max(i, 0)))
}

// instant decodes what appendInstant wrote. b has at least 8 bytes.
func instant(b []byte) trigger.Instant {
	return trigger.Instant(min(binary.BigEndian.Uint64(b), math.MaxInt64))
}

// appendName encodes a tenant, user or zone without keyEnd: a byte 0 becomes 01 02 and a byte
// 1 becomes 01 01. Hardly any name needs that.
func appendName(b []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, 1) < 0 {
		return append(append(b, s...), keyEnd)
	}
	for i := range len(s) {
		switch s[i] {
		case 0:
			b = append(b, 1, 2)
		case 1:
			b = append(b, 1, 1)
		default:
			b = append(b, s[i])
		}
	}
	return append(b, keyEnd)
}

// unname reverses the escapes of appendName. s has no keyEnd.
func unname(s string) string {
	return strings.NewReplacer("\x01\x02", "\x00", "\x01\x01", "\x01").Replace(s)
}

func appendDueKey(b []byte, due trigger.Instant, ref string) []byte {
	b = appendInstant(append(b, byte(tableDue)), due)
	return append(b, ref...)
}

func appendTimerKey(b []byte, t trigger.Timer, key trigger.Key) []byte {
	b = appendInstant(append(b, byte(tableDue)), t.Due)
	return appendRef(b, t, key)
}

func appendRef(b []byte, t trigger.Timer, key trigger.Key) []byte {
	b = append(append(b, byte(t.Priority)), key...)
	return append(append(b, keyEnd, byte(t.Kind)), t.Occurrence...)
}

// splitDueKey splits a key of table d into the due time and the ref.
func splitDueKey(k []byte) (due trigger.Instant, ref []byte, ok bool) {
	if len(k) < 1+8 || table(k[0]) != tableDue {
		return 0, nil, false
	}
	return instant(k[1:]), k[1+8:], true
}

// Ref is what follows the due time in the due index: bytes whose order is the order in which
// timers of one millisecond fire (priority, key, kind, occurrence). The wheel keeps them as
// opaque bytes.
func Ref(t trigger.Timer, key trigger.Key) string {
	var space [keySpace]byte
	return string(appendRef(space[:0], t, key))
}

// IsHigh reports whether a ref is of a timer of priority high.
func IsHigh(ref string) bool { return ref != "" && ref[0] == byte(trigger.High) }

// ParseRef splits a ref without allocating. ok is false for bytes that Ref does not write.
func ParseRef(ref string) (prio trigger.Priority, key trigger.Key, kind trigger.TimerKind, occurrence string, ok bool) {
	if len(ref) < 4 || ref[0] > byte(trigger.Low) {
		return 0, "", 0, "", false
	}
	end := strings.IndexByte(ref[1:], keyEnd) + 1
	if end < 2 || end-1 > trigger.MaxKeyBytes || end+1 >= len(ref) {
		return 0, "", 0, "", false
	}
	kind = trigger.TimerKind(ref[end+1])
	if kind != trigger.TimerSeries && kind != trigger.TimerLive {
		return 0, "", 0, "", false
	}
	return trigger.Priority(ref[0]), trigger.Key(ref[1:end]), kind, ref[end+2:], true
}

func appendStateKey(b []byte, key trigger.Key) []byte {
	return append(append(b, byte(tableKey)), key...)
}

// behindState returns the first key of table t that a scan after a trigger may find. "" is before
// all triggers.
func behindState(after trigger.Key) []byte {
	b := appendStateKey(nil, after)
	if after != "" {
		b = append(b, 0)
	}
	return b
}

func appendDoneKey(b []byte, forgetAt trigger.Instant, key trigger.Key) []byte {
	b = appendInstant(append(b, byte(tableDone)), forgetAt)
	return append(b, key...)
}

// splitDoneKey splits a key of table y.
func splitDoneKey(k []byte) (forgetAt trigger.Instant, key trigger.Key, ok bool) {
	if len(k) < 1+8+1 || table(k[0]) != tableDone {
		return 0, "", false
	}
	return instant(k[1:]), trigger.Key(k[1+8:]), true
}

// appendUser appends the prefix of all entries of a user.
func appendUser(b []byte, tenant, user string) []byte {
	return appendName(appendName(append(b, byte(tableUser)), tenant), user)
}

func appendUserKey(b []byte, tenant, user string, due trigger.Instant, key trigger.Key) []byte {
	b = appendInstant(appendUser(b, tenant, user), due)
	return append(b, key...)
}

func appendZone(b []byte, zone string) []byte {
	return appendName(append(b, byte(tableZone)), zone)
}

func appendZoneKey(b []byte, zone string, key trigger.Key) []byte {
	return append(appendZone(b, zone), key...)
}

func metaKey(name string) []byte { return []byte(string(tableMeta) + "/" + name) }
