package unsubscribe

import (
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/sealed"
)

var secrets = []string{"0123456789abcdef", "fedcba9876543210"}

// golden is a token of the first release: mails with it are read for years.
const golden = "AQRhY21lBHVfODEFZW1haWwFb2ZmZXLRVP6Q6_XARLKrEAH6orUL"

var goldenLink = Link{Tenant: "acme", User: "u_81", Channel: "email", Type: "offer"}

func TestGolden(t *testing.T) {
	if got := URL("https://wc.example.com/", secrets, goldenLink); got != "https://wc.example.com/u/"+golden {
		t.Errorf("it is %s", got)
	}
	for _, with := range [][]string{secrets, {"another-secret-of-16", secrets[0]}} {
		if l, err := Open(with, golden); err != nil || l != goldenLink {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

func TestForged(t *testing.T) {
	text := func(b string) string { return sealed.Seal(secrets[0], purpose, []byte(b)) }
	for name, token := range map[string]string{
		"nothing": "", "no base64": "*", "cut": golden[:len(golden)-4], "padded": golden + "=",
		"another byte":    "AQRhY21lBHVfODIF" + golden[16:],
		"another secret":  sealed.Seal("x-x-x-x-x-x-x-x-", purpose, []byte{1}),
		"another purpose": sealed.Seal(secrets[0], "waterclock ack link", []byte("\x01\x00\x01u\x01c\x00")),
		"another version": text("\x02\x00\x01u\x01c\x00"), "no user": text("\x01\x00\x00\x01c\x00"),
		"no channel": text("\x01\x00\x01u\x00\x00"), "too short": text("\x01\x00\x01u\x01c"),
		"a length beyond": text("\x01\x00\x01u\x01c\x05x"), "more behind": text("\x01\x00\x01u\x01c\x00x"),
		"no UTF-8": text("\x01\x00\x01\xff\x01c\x00"), "long": text(strings.Repeat("x", 2000)),
	} {
		if l, err := Open(secrets, token); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
	for name, l := range map[string]Link{
		"no user": {Channel: "email"}, "no channel": {User: "u"},
		"too long": {User: "u", Channel: "email", Type: strings.Repeat("x", 1100)},
	} {
		if u := URL("https://wc.example.com", secrets, l); u != "" {
			t.Errorf("%s: %s", name, u)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, token string) {
		l, err := Open(secrets, token)
		if err != nil {
			return
		}
		if u := URL("x", secrets, l); u != "x"+Path+token {
			t.Errorf("%q opens as %+v, which is spelled %q", token, l, u)
		}
	})
}
