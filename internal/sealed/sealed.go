// Package sealed makes and opens tokens for links: bytes that anybody may read, and that
// only who has a secret can make. A Box (box.go) seals what nobody else may read either.
//
//	┌──────┬────────────────────────────────────────────────────────┐
//	│ text │ first 16 bytes of HMAC-SHA256(secret, purpose 00 text) │  in base64url without padding
//	└──────┴────────────────────────────────────────────────────────┘
package sealed

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// MACBytes is how many bytes of the MAC a token has.
const MACBytes = 16

// Seal makes a token. The purpose tells kinds of tokens apart, so that a secret that is used
// elsewhere, too, makes none by accident.
func Seal(secret, purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(append(text[:len(text):len(text)], mac(secret, purpose, text)...))
}

// Open returns the text of a token that one of the secrets has made for this purpose. most
// bounds the bytes of the text.
func Open(secrets []string, purpose, token string, most int) (text []byte, ok bool) {
	if len(token) > base64.RawURLEncoding.EncodedLen(most+MACBytes) {
		return nil, false
	}
	b, ok := unspell(token)
	if !ok || len(b) < MACBytes {
		return nil, false
	}
	ok = false
	text, sum := b[:len(b)-MACBytes], b[len(b)-MACBytes:]
	for _, secret := range secrets { // all of them: the time says nothing of which
		if secret != "" && hmac.Equal(mac(secret, purpose, text), sum) {
			ok = true
		}
	}
	if !ok {
		return nil, false
	}
	return text, true
}

// unspell decodes a token as Seal spells it. The decoder alone would pass over line breaks, and over
// bits behind the last byte.
func unspell(token string) (b []byte, ok bool) {
	if strings.ContainsAny(token, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	return b, err == nil
}

func mac(secret, purpose string, text []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(purpose))
	m.Write([]byte{0})
	m.Write(text)
	return m.Sum(nil)[:MACBytes]
}
