// Package acklink makes and reads the links by which somebody acknowledges a
// notification without a log-in: public_url/a/TOKEN. A token names one occurrence of one
// trigger, and ends (docs/formats/ack-links.md).
//
// It proves nothing but that we made it. Whoever has a link can acknowledge this one
// occurrence, as often as they like: the second time changes nothing.
package acklink

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/internal/sealed"
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
	ErrForged = errors.New("the link was not issued by this server")
	// ErrExpired is what is wrong with one that has ended. The Link is there all the same.
	ErrExpired = errors.New("the link has expired")
)

// The bytes of a token before they are spelled in base64url.
const (
	version = 1
	head    = 1 + 8 // version, and expiry in seconds since 1970
	// MaxDueID is the longest ce_id of a link: a key of 255 bytes, an occurrence, a life and
	// a step are shorter.
	MaxDueID = 512
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
	b := make([]byte, 0, head+len(l.DueID)+sealed.MACBytes)
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(max(l.Expires.Unix(), 0)))
	b = append(b, l.DueID...)
	return sealed.Seal(secret, purpose, b)
}

// purpose tells these tokens from others that the same secret seals.
const purpose = "waterclock ack link"

// Open reads a token that one of the secrets has made.
func Open(secrets []string, token string, now time.Time) (Link, error) {
	text, ok := sealed.Open(secrets, purpose, token, head+MaxDueID)
	if !ok || len(text) <= head || text[0] != version {
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
