package egress_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/egress"
)

func TestParseBase(t *testing.T) {
	for _, c := range []struct{ text, origin, why string }{
		{"https://proxy.example.com", "https://proxy.example.com", ""},
		{"https://proxy.example.com:8443/fcm/", "https://proxy.example.com:8443", ""},
		{"https://10.0.0.5", "https://10.0.0.5", ""},
		{"http://127.0.0.1:9000", "http://127.0.0.1:9000", ""},
		{"http://[::1]:9000", "http://[::1]:9000", ""},
		{"http://localhost", "http://localhost", ""},
		{"http://proxy.example.com", "", "must begin with https://"},
		{"http://10.0.0.5", "", "must begin with https://"},
		{"proxy.example.com", "", "is not a base URL"},
		{"https://user:pass@proxy.example.com", "", "is not a base URL"},
		{"https://proxy.example.com/?q=1", "", "is not a base URL"},
		{"https://proxy.example.com/#x", "", "is not a base URL"},
		{"ftp://proxy.example.com", "", "is not an origin"},
		{"", "", "is not a base URL"},
	} {
		o, err := egress.ParseBase(c.text)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) ||
			err == nil && o.String() != c.origin {
			t.Errorf("%s: %v, %v", c.text, o, err)
		}
	}
}

// A connection of the caller's own goes where a request may, and nowhere else.
func TestConnect(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "here")
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	none := egress.NewTransport(egress.Options{})
	if _, err := none.Connect(t.Context(), u); !refusedAs(err, egress.CodeForbiddenURL) {
		t.Fatal(err)
	}
	tr := egress.NewTransport(egress.Options{
		Policy: policy(t, egress.Settings{Allow: []string{s.URL}}), Limits: egress.Limits{ConnsPerOrigin: 1},
	})
	defer tr.CloseIdleConnections()
	conn, err := tr.Connect(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := conn.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "here" {
		t.Fatalf("%q, %v", b, err)
	}
	_ = answer.Body.Close()
	if err := conn.Close(); err != nil { // Go 1.26 panics here where connections are bounded
		t.Fatal(err)
	}
}
