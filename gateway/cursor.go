package gateway

import (
	"encoding/binary"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/sealed"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// cursorSeal makes list cursors that only we can read and make. A cursor may hold the key
// of another tenant's trigger, if a page ended there. It is valid only for the same query
// of the same tenant.
type cursorSeal struct{ box *sealed.Box }

// newCursorSeal seals with the secrets of all instances: the first one seals, all open.
func newCursorSeal(secrets func() [][]byte) *cursorSeal {
	return &cursorSeal{sealed.NewBox("waterclock list cursor 1", secrets)}
}

// next is the cursor of the page after p; "" if p is the last.
func (s *cursorSeal) next(q *peer.Query, p peer.Page) string {
	if !p.More {
		return ""
	}
	return s.seal(q, p.Through)
}

// seal encodes a cursor for a URL.
func (s *cursorSeal) seal(q *peer.Query, at peer.UserCursor) string {
	return s.box.Seal(at.AppendTo(nil), question(q))
}

// open decodes a cursor of the same query.
func (s *cursorSeal) open(q *peer.Query, text string) (peer.UserCursor, error) {
	wrong := errCursor()
	plain, ok := s.box.Open(text, question(q))
	if !ok {
		return peer.UserCursor{}, wrong
	}
	due, n := binary.Varint(plain)
	if n <= 0 {
		return peer.UserCursor{}, wrong
	}
	size, m := binary.Uvarint(plain[n:])
	if key := plain[n+max(m, 0):]; m > 0 && uint64(len(key)) == size {
		return peer.UserCursor{Due: trigger.Instant(due), Key: trigger.Key(key)}, nil
	}
	return peer.UserCursor{}, wrong
}

// sealEvent encodes a cursor of the events of a trigger.
func (s *cursorSeal) sealEvent(key trigger.Key, at EventCursor) string {
	return s.box.Seal(at.bytes(), eventsOf(key))
}

// openEvent decodes a cursor of the events of the same trigger; "" is the zero cursor.
func (s *cursorSeal) openEvent(key trigger.Key, text string) (EventCursor, error) {
	if text == "" {
		return EventCursor{}, nil
	}
	plain, ok := s.box.Open(text, eventsOf(key))
	at, whole := eventCursorOf(plain)
	if !ok || !whole {
		return EventCursor{}, errCursor()
	}
	return at, nil
}

// eventsOf is what a cursor of events belongs to. No question begins so: a tenant has fewer letters.
func eventsOf(key trigger.Key) []byte { return append([]byte("\xff\xffevents\x00"), key...) }

// sealLetter encodes a cursor of dead letters; "" for the zero cursor.
func (s *cursorSeal) sealLetter(of *letterQuestion, at topics.LetterCursor) string {
	if at.IsZero() {
		return ""
	}
	return s.box.Seal([]byte(at.String()), of.bytes())
}

// openLetter decodes a cursor of the same question; "" is the zero cursor.
func (s *cursorSeal) openLetter(of *letterQuestion, text string) (topics.LetterCursor, error) {
	if text == "" {
		return topics.LetterCursor{}, nil
	}
	plain, ok := s.box.Open(text, of.bytes())
	if !ok {
		return topics.LetterCursor{}, errCursor()
	}
	at, err := topics.ParseLetterCursor(string(plain))
	if err != nil {
		return at, errCursor()
	}
	return at, nil
}

// letterQuestion is what a cursor of dead letters belongs to.
type letterQuestion struct {
	what   string // kind of the answer: their orders differ
	caller string // tenant
	q      topics.LetterQuery
}

func (l *letterQuestion) bytes() []byte {
	b := []byte("\xff\xffdead letters\x00")
	for _, s := range []string{
		l.what, l.caller, l.q.Tenant, l.q.Trigger, l.q.Channel, l.q.Code, l.q.Endpoint, l.q.Status.String(),
	} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return binary.AppendVarint(binary.AppendVarint(b, int64(l.q.From)), int64(l.q.To))
}

// errCursor refuses a cursor that is not of this query, or whose secret is gone.
func errCursor() error {
	return problem.BadParameter("cursor",
		"this cursor belongs to another query, or was made before a restart or an update: begin without one")
}

// question encodes what a cursor belongs to: the whole query but its start and its limit.
// Lengths keep two queries from having the same encoding.
func question(q *peer.Query) []byte {
	var b []byte
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(q.Tenant)
	text(q.User)
	text(q.Channel)
	for _, t := range q.Tags {
		text(t.Key)
		text(t.Value)
	}
	b = binary.AppendUvarint(b, uint64(q.States))
	b = binary.AppendVarint(b, int64(q.From))
	b = binary.AppendVarint(b, int64(q.To))
	if q.Prefix != "" {
		text("\x00prefix")
		text(q.Prefix)
	}
	if q.ByNextFire {
		text("\x00next_fire")
	}
	return b
}
