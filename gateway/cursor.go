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

// cursorSeal makes list cursors that only we can read and make. A cursor may
// hold the key of another tenant's trigger, where a page ended on one; and it
// goes on with the same question of the same tenant, or not at all.
type cursorSeal struct {
	secrets func() [][]byte // of all instances; the first seals, each opens

	mu   sync.Mutex
	keys map[string]cipher.AEAD // by secret; as many as there are in one Trust
}

func newCursorSeal(secrets func() [][]byte) *cursorSeal { return &cursorSeal{secrets: secrets} }

// aead is the key that is derived from one of so many secrets.
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

// next is the cursor of the page behind p; "" where p is the last.
func (s *cursorSeal) next(q *peer.Query, p peer.Page) string {
	if !p.More {
		return ""
	}
	return s.seal(q, p.Through)
}

// seal spells a cursor for a URL.
func (s *cursorSeal) seal(q *peer.Query, at peer.UserCursor) string {
	secrets := s.secrets()
	key := s.aead(secrets[0], len(secrets))
	return base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, at.AppendTo(nil), question(q)))
}

// open reads what seal spelled for the same question.
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

// question is what a cursor belongs to: all of the query but where it begins
// and how many it wants. Lengths keep two questions from reading alike.
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
	return binary.AppendVarint(b, int64(q.To))
}
