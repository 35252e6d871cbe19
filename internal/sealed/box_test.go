package sealed

import (
	"strings"
	"testing"
)

func TestBox(t *testing.T) {
	secrets := [][]byte{[]byte("a")}
	with := func(purpose string) *Box { return NewBox(purpose, func() [][]byte { return secrets }) }
	box := with("test")
	token := box.Seal([]byte("text"), []byte("data"))
	if strings.Contains(token, "text") || token == box.Seal([]byte("text"), []byte("data")) {
		t.Errorf("token %q", token)
	}
	opens := func(b *Box, token, data string) bool {
		text, ok := b.Open(token, []byte(data))
		return ok && string(text) == "text"
	}
	if !opens(box, token, "data") {
		t.Error("it does not open")
	}
	if opens(box, token, "other") || opens(with("tests"), token, "data") || opens(box, token[1:], "data") ||
		opens(box, "*", "data") || opens(box, "", "data") {
		t.Error("it opens for what it was not made for")
	}
	for _, other := range []string{token + "\n", "\r" + token, token[:9] + "\n" + token[9:], token + "=", " " + token} {
		if opens(box, other, "data") {
			t.Errorf("it opens in another spelling: %q", other)
		}
	}
	secrets = [][]byte{[]byte("b"), []byte("a")}
	if !opens(box, token, "data") {
		t.Error("it does not open while the secret is changed")
	}
	secrets = [][]byte{[]byte("b")}
	if opens(box, token, "data") {
		t.Error("it opens by a secret that is gone")
	}
}
