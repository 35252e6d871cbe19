// Package unsubscribe makes and reads the links by which somebody opts out without a
// log-in: public_url/u/TOKEN (docs/formats/unsubscribe-links.md). They stand in header
// List-Unsubscribe of mails, which readers of mail offer as one click (RFC 8058).
//
// A token names a user, a channel and a type of notification. It does not end: a mail may be
// read years later, and all that it can do is to opt out.
package unsubscribe

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/waterclock/waterclock/internal/sealed"
)

// Path is where the gateway shows links.
const Path = "/u/"

// Link is what a token says.
type Link struct {
	Tenant, User string
	Channel      string
	Type         string // tags.type; "" is every notification on the channel
}

// ErrForged is what is wrong with a token that none of the secrets has made.
var ErrForged = errors.New("the link was not issued by this server")

const (
	version = 1
	purpose = "waterclock unsubscribe link"
	// maxText is over the longest: a tenant, a user of 255 bytes, a channel, a type of 256.
	maxText = 1024
)

// URL is the link; "" if there can be none: no public URL or secret is set, no user is named,
// or it is too long. The first of the secrets seals it.
func URL(public string, secrets []string, l Link) string {
	if public == "" || len(secrets) == 0 || secrets[0] == "" || l.User == "" || l.Channel == "" {
		return ""
	}
	b := []byte{version}
	for _, s := range []string{l.Tenant, l.User, l.Channel, l.Type} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if len(b) > maxText {
		return ""
	}
	return strings.TrimRight(public, "/") + Path + sealed.Seal(secrets[0], purpose, b)
}

// Open reads a token that one of the secrets has made.
func Open(secrets []string, token string) (l Link, err error) {
	b, ok := sealed.Open(secrets, purpose, token, maxText)
	if !ok || len(b) == 0 || b[0] != version {
		return Link{}, ErrForged
	}
	b = b[1:]
	for _, s := range []*string{&l.Tenant, &l.User, &l.Channel, &l.Type} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return Link{}, ErrForged
		}
		*s, b = string(b[used:used+int(n)]), b[used+int(n):]
		if !utf8.ValidString(*s) {
			return Link{}, ErrForged
		}
	}
	if len(b) > 0 || l.User == "" || l.Channel == "" {
		return Link{}, ErrForged
	}
	return l, nil
}
