package sealed

import "testing"

func TestSealed(t *testing.T) {
	secrets := []string{"a", "b"}
	token := Seal("b", "test", []byte("text"))
	if text, ok := Open(secrets, "test", token, 4); !ok || string(text) != "text" {
		t.Errorf("%q, %v", text, ok)
	}
	for name, open := range map[string]func() ([]byte, bool){
		"another purpose": func() ([]byte, bool) { return Open(secrets, "tests", token, 4) },
		"another secret":  func() ([]byte, bool) { return Open([]string{"c", ""}, "test", token, 4) },
		"no secret":       func() ([]byte, bool) { return Open(nil, "test", Seal("", "test", nil), 4) },
		"an empty secret": func() ([]byte, bool) { return Open([]string{""}, "test", Seal("", "test", nil), 4) },
		"too long":        func() ([]byte, bool) { return Open(secrets, "test", token, 3) },
		"cut":             func() ([]byte, bool) { return Open(secrets, "test", token[1:], 4) },
		"no base64":       func() ([]byte, bool) { return Open(secrets, "test", "*", 4) },
		"short":           func() ([]byte, bool) { return Open(secrets, "test", "AAAA", 4) },
	} {
		if text, ok := open(); ok {
			t.Errorf("%s: %q", name, text)
		}
	}
}
