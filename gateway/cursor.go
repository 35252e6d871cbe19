package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// cursorSeal makes list cursors that only we can read and make. A cursor may hold the key
// of another tenant's trigger, if a page ended there. It is valid only for the same query
// of the same tenant.
type cursorSeal struct {
	secrets func() [][]byte // of all instances; the first one seals, all open

	mu   sync.Mutex
	keys map[string]cipher.AEAD // by secret; at most as many as one Trust has
}

func newCursorSeal(secrets func() [][]byte) *cursorSeal { return &cursorSeal{secrets: secrets} }

// aead returns the key that is derived from one of among secrets.
func (s *cursorSeal) aead(secret []byte, among int) cipher.AEAD {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.keys[string(secret)]; known != nil {
		return known
	}
	made, err := cursorKey(secret)
	if err != nil {
		panic("gateway: a cursor key of a fixed size: " + err.Error())
	}
	if s.keys == nil || len(s.keys) >= among { // the secrets have changed
		s.keys = map[string]cipher.AEAD{}
	}
	s.keys[string(secret)] = made
	return made
}

func cursorKey(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "waterclock list cursor 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
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
	secrets := s.secrets()
	key := s.aead(secrets[0], len(secrets))
	return base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, at.AppendTo(nil), question(q)))
}

// open decodes a cursor of the same query.
func (s *cursorSeal) open(q *peer.Query, text string) (peer.UserCursor, error) {
	wrong := problem.BadParameter("cursor", "this cursor belongs to another query: begin without one")
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return peer.UserCursor{}, wrong
	}
	plain, ok := s.unseal(sealed, question(q))
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

func (s *cursorSeal) unseal(sealed, question []byte) (plain []byte, ok bool) {
	secrets := s.secrets()
	for _, secret := range secrets {
		if plain, err := s.aead(secret, len(secrets)).Open(nil, nil, sealed, question); err == nil {
			return plain, true
		}
	}
	return nil, false
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
	return b
}
