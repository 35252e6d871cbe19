package preferences

import (
	"net/mail"
	"strings"

	"golang.org/x/net/idna"

	"github.com/waterclock/waterclock/internal/printable"
)

// isEmail accepts one bare address that a mail server takes: no name, no comment, nothing that
// could inject a header.
func isEmail(s string) bool {
	if len(s) > MaxEmail || strings.ContainsFunc(s, func(r rune) bool { return visible(r) != r || r == ' ' }) {
		return false
	}
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s {
		return false
	}
	_, ok := ASCIIMail(s)
	return ok
}

// ASCIIMail spells the address as any mail server takes it: a domain of other letters becomes
// its A-labels (RFC 5891), ada@exämple.com is ada@xn--exmple-cua.com. ok is false for an address
// that has no such form: its local part is not ASCII (only SMTPUTF8 has such, RFC 6531), or its
// domain is no name.
func ASCIIMail(address string) (ascii string, ok bool) {
	at := strings.LastIndexByte(address, '@')
	local, domain := address[:max(at, 0)], address[at+1:]
	if local == "" || !printable.IsASCII(local) {
		return "", false
	}
	if printable.IsASCII(domain) {
		return address, domain != ""
	}
	domain, err := idna.Lookup.ToASCII(domain)
	ascii = local + "@" + domain
	return ascii, err == nil && printable.IsASCII(domain) && len(ascii) <= MaxEmail
}
