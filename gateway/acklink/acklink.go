// Package acklink makes and reads the links by which somebody acknowledges a
// notification without a log-in: public_url/a/TOKEN. A token names one occurrence of one
// trigger, and ends (docs/formats/ack-links.md).
//
// It proves nothing but that we made it. Whoever has a link can acknowledge this one
// occurrence, as often as they like: the second time changes nothing.
package acklink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Path is where the gateway shows links.
const Path = "/a/"

// Link is what a token says.
type Link struct {
	DueID   string // ce_id of the due event that was sent, its step included
	Expires time.Time
}

var (
	// ErrForged is what is wrong with a token that none of the secrets has made.
	ErrForged = errors.New("the link is not of our making")
	// ErrExpired is what is wrong with one that has ended. The Link is there all the same.
	ErrExpired = errors.New("the link has expired")
)

// The bytes of a token before they are spelled in base64url.
const (
	version  = 1
	head     = 1 + 8 // version, and expiry in seconds since 1970
	macBytes = 16
	// MaxDueID is the longest ce_id of a link: a key of 255 bytes, an occurrence, a life and
	// a step are shorter.
	MaxDueID = 512
	maxToken = (head + MaxDueID + macBytes) * 4 / 3
)

// URL is the link for a due event; "" if there can be none: no public URL or secret is set, or
// the id is too long. The first of the secrets seals it.
func URL(public string, secrets []string, l Link) string {
	if public == "" || len(secrets) == 0 || secrets[0] == "" || l.DueID == "" || len(l.DueID) > MaxDueID {
		return ""
	}
	return strings.TrimRight(public, "/") + Path + seal(secrets[0], l)
}

func seal(secret string, l Link) string {
	b := make([]byte, 0, head+len(l.DueID)+macBytes)
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(max(l.Expires.Unix(), 0)))
	b = append(b, l.DueID...)
	return base64.RawURLEncoding.EncodeToString(append(b, mac(secret, b)...))
}

// mac is the first 16 bytes of HMAC-SHA256. Its text begins with its purpose, so that a
// secret that is used elsewhere, too, makes no token by accident.
func mac(secret string, b []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte("waterclock ack link\x00"))
	m.Write(b)
	return m.Sum(nil)[:macBytes]
}

// Open reads a token that one of the secrets has made.
func Open(secrets []string, token string, now time.Time) (Link, error) {
	if len(token) > maxToken {
		return Link{}, ErrForged
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) <= head+macBytes || b[0] != version {
		return Link{}, ErrForged
	}
	text, sum := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !sealed(secrets, text, sum) {
		return Link{}, ErrForged
	}
	seconds := binary.BigEndian.Uint64(text[1:head])
	l := Link{DueID: string(text[head:])}
	if seconds > math.MaxInt32*1000 || !utf8.ValidString(l.DueID) {
		return Link{}, ErrForged // we make no such token
	}
	if l.Expires = time.Unix(int64(seconds), 0); !now.Before(l.Expires) {
		return l, ErrExpired
	}
	return l, nil
}

func sealed(secrets []string, text, sum []byte) bool {
	ok := false
	for _, secret := range secrets {
		if secret != "" && hmac.Equal(mac(secret, text), sum) {
			ok = true
		}
	}
	return ok
}
