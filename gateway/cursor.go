package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// cursorSeal makes list cursors that only we can read and make. A cursor may
// hold the key of another tenant's trigger, where a page ended on one; and it
// goes on with the same question of the same tenant, or not at all.
type cursorSeal struct{ aead cipher.AEAD }

// newCursorSeal derives the key from the secret all instances share.
func newCursorSeal(secret []byte) (*cursorSeal, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "waterclock list cursor 1", 32)
	if err != nil {
		return nil, fmt.Errorf("cursor key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cursor key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &cursorSeal{aead}, err
}

// seal spells a place for a URL.
func (s *cursorSeal) seal(q *Query, at UserCursor) string {
	plain := appendCursor(nil, at)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, q.question()))
}

// open reads what seal spelled for the same question.
func (s *cursorSeal) open(q *Query, text string) (UserCursor, error) {
	wrong := problem.BadParameter("cursor", "this cursor was not given for this question: begin without one")
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return UserCursor{}, wrong
	}
	plain, err := s.aead.Open(nil, nil, sealed, q.question())
	if err != nil {
		return UserCursor{}, wrong
	}
	due, n := binary.Varint(plain)
	if n <= 0 {
		return UserCursor{}, wrong
	}
	size, m := binary.Uvarint(plain[n:])
	if key := plain[n+max(m, 0):]; m > 0 && uint64(len(key)) == size {
		return UserCursor{trigger.Instant(due), trigger.Key(key)}, nil
	}
	return UserCursor{}, wrong
}

// question is what a cursor belongs to: all of the query but where it begins
// and how many it wants. Lengths keep two questions from reading alike.
func (q *Query) question() []byte {
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

// parseTags reads tag=name:value.
func parseTags(values []string) ([]trigger.Tag, error) {
	var tags []trigger.Tag
	for _, v := range values {
		key, value, ok := strings.Cut(v, ":")
		if !ok || key == "" {
			return nil, problem.BadParameter("tag", "write tag=name:value")
		}
		tags = append(tags, trigger.Tag{Key: key, Value: value})
	}
	return tags, nil
}
