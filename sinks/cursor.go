package sinks

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/waterclock/waterclock/trigger"
)

// EventCursor is a position among one trigger's events.
type EventCursor struct{ EventUS, Seq int64 }

// IsZero reports whether the cursor is the zero cursor.
func (c EventCursor) IsZero() bool { return c == EventCursor{} }

// CursorOf returns the position of an event.
func CursorOf(e *EventRecord) EventCursor { return EventCursor{e.EventUS, e.Seq} }

// ErrCursor means that a cursor's text was not made by String.
var ErrCursor = errors.New("not a cursor of this list")

const (
	eventCursorKind  = 'e'
	minuteCursorKind = 'm'
)

// String encodes the cursor for a URL. The zero cursor is "".
func (c EventCursor) String() string {
	if c.IsZero() {
		return ""
	}
	b := append(make([]byte, 0, 24), eventCursorKind)
	b = binary.AppendVarint(b, c.EventUS)
	b = binary.AppendVarint(b, c.Seq)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseEventCursor parses the output of String. "" is the zero cursor.
func ParseEventCursor(s string) (EventCursor, error) {
	if s == "" {
		return EventCursor{}, nil
	}
	b, err := cursorBytes(s, eventCursorKind)
	if err != nil {
		return EventCursor{}, err
	}
	us, n := binary.Varint(b)
	if n <= 0 {
		return EventCursor{}, ErrCursor
	}
	seq, m := binary.Varint(b[n:])
	if m <= 0 || n+m != len(b) {
		return EventCursor{}, ErrCursor
	}
	return EventCursor{us, seq}, nil
}

// MinuteCursor is a position among the entries of one minute.
type MinuteCursor struct {
	Due             trigger.Instant
	Tenant, Trigger string
}

// IsZero reports whether the cursor is the zero cursor.
func (c MinuteCursor) IsZero() bool { return c == MinuteCursor{} }

// Cursor returns the position of an entry.
func (e *MinuteEntry) Cursor() MinuteCursor { return MinuteCursor{e.Due, e.Tenant, e.Trigger} }

// Compare orders cursors like ByMinute: by due time, tenant, trigger. Text is compared by its
// UTF-8 bytes.
func (c MinuteCursor) Compare(o MinuteCursor) int {
	return cmp.Or(cmp.Compare(c.Due, o.Due), cmp.Compare(c.Tenant, o.Tenant), cmp.Compare(c.Trigger, o.Trigger))
}

// String encodes the cursor for a URL. The zero cursor is "".
func (c MinuteCursor) String() string {
	if c.IsZero() {
		return ""
	}
	b := append(make([]byte, 0, 16+len(c.Tenant)+len(c.Trigger)), minuteCursorKind)
	b = binary.AppendVarint(b, int64(c.Due))
	b = binary.AppendUvarint(b, uint64(len(c.Tenant)))
	b = append(b, c.Tenant...)
	b = append(b, c.Trigger...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseMinuteCursor parses the output of String. "" is the zero cursor.
func ParseMinuteCursor(s string) (MinuteCursor, error) {
	if s == "" {
		return MinuteCursor{}, nil
	}
	b, err := cursorBytes(s, minuteCursorKind)
	if err != nil {
		return MinuteCursor{}, err
	}
	due, n := binary.Varint(b)
	if n <= 0 {
		return MinuteCursor{}, ErrCursor
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return MinuteCursor{}, ErrCursor
	}
	b = b[n:]
	return MinuteCursor{trigger.Instant(due), string(b[:size]), string(b[size:])}, nil
}

func cursorBytes(s string, kind byte) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) == 0 || b[0] != kind {
		return nil, ErrCursor
	}
	return b[1:], nil
}
