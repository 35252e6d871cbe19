package providers_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// The providers of a settings file send, reload credentials from their files, and keep the old
// ones if a file is invalid.
func TestSet(t *testing.T) {
	g := startGoogle(t)
	g.send = func(r received, w http.ResponseWriter) {
		switch {
		case strings.HasPrefix(r.path, "/3/device/"):
			accepts(r, w)
		case strings.HasPrefix(r.path, "/2010-04-01/"):
			created(r, w)
		default:
			says(200, `{"name":"n"}`)(r, w)
		}
	}
	dir := t.TempDir()
	put := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first, second := ecKey(t), ecKey(t)
	credentials := g.credentials(t)
	c, err := config.Load(config.Options{Flags: map[string]string{
		"providers.fcm.credentials": "file:" + put("fcm.json", credentials), "providers.fcm.url": g.URL,
		"providers.apns.key":    "file:" + put("apns.p8", []byte(pemOf(t, first))),
		"providers.apns.key_id": "ABC123DEFG", "providers.apns.team_id": "DEF123GHIJ", "providers.apns.topic": "a.b",
		"providers.apns.url":           g.URL,
		"providers.twilio.account_sid": "AC0123456789abcdef0123456789abcdef", "providers.twilio.from": "Acme",
		"providers.twilio.auth_token": "file:" + put("twilio", []byte(authToken)), "providers.twilio.url": g.URL,
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := providers.Open(c, providers.HTTP{Roots: g.roots()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	push, sms := s.All("push"), s.All("sms")
	if len(push) != 2 || len(sms) != 1 || s.All("email") != nil {
		t.Fatal(push, sms)
	}
	send := func() (apple, basic string) {
		t.Helper()
		for _, p := range append(push, sms...) {
			address := map[string]string{"fcm": "registration-1", "apns": device, "twilio": phone}[p.Name()]
			if got := said(p.Send(t.Context(), message(address))); !strings.HasPrefix(got, "accepted") {
				t.Fatal(p.Name(), got)
			}
		}
		last := func(path string) string {
			all := g.requests(path)
			return all[len(all)-1].header.Get("Authorization")
		}
		return last("/3/device/"), last("/2010-04-01/")
	}
	apple, basic := send()
	issued(t, apple, first)
	put("fcm.json", bytes.ReplaceAll(credentials, []byte(`"p1"`), []byte(`"p2"`)))
	put("apns.p8", []byte(pemOf(t, second)))
	put("twilio", []byte("another"))
	if err := s.Reload(c); err != nil {
		t.Fatal(err)
	}
	apple, other := send()
	issued(t, apple, second)
	if other == basic || len(g.requests("/v1/projects/p2/")) != 1 {
		t.Fatal("the old credentials are in use")
	}
	put("fcm.json", []byte(canary))
	put("apns.p8", []byte(canary))
	put("twilio", nil)
	err = s.Reload(c)
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Fatal(err)
	}
	for _, want := range []string{"providers.fcm: ", "providers.apns: ", "providers.twilio.auth_token: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	send()
	if s, err := providers.Open(c, providers.HTTP{}); err == nil || s != nil {
		t.Fatal("wrong files are taken")
	}
}

func TestSetOfNothing(t *testing.T) {
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := providers.Open(c, providers.HTTP{})
	if err != nil || s.All("push") != nil || s.All("sms") != nil || s.Reload(c) != nil || s.Close() != nil {
		t.Fatal(s, err)
	}
}
