package egress

import "testing"

// An origin has one spelling, in settings, breakers and dead letters alike. That of the URLs a
// policy allows is Origin.String.
func TestOriginOf(t *testing.T) {
	for text, want := range map[string]string{
		"https://A.Example/x?y":      "https://a.example",
		"HTTPS://a.example:443/":     "https://a.example",
		"http://a.example:80":        "http://a.example",
		"http://a.example:443":       "http://a.example:443",
		"https://[2001:DB8::1]:8443": "https://[2001:db8::1]:8443",
		"https://[2001:db8::1]/":     "https://[2001:db8::1]",
		"https://[2001:db8:0::1]/":   "https://[2001:db8::1]",
		"http://[FD00:0:0::5]:8080":  "http://[fd00::5]:8080",
		"https://u:p@a.example./":    "https://a.example.",
		"/x":                         "",
		"https://[":                  "",
	} {
		got := OriginOf(text)
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if o, err := ParseOrigin(got); err == nil && o.String() != got {
			t.Errorf("%s: %s, and the policy spells %s", text, got, o)
		}
	}
}
