package gateway

import (
	"encoding/binary"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/sealed"
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
	wrong := problem.BadParameter("cursor", "this cursor belongs to another query: begin without one")
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
