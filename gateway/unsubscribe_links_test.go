package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/acklink"
	"github.com/waterclock/waterclock/gateway/unsubscribe"
	"github.com/waterclock/waterclock/preferences"
)

// A link only asks; its POST opts out, of the type that it names or of the channel, and of
// nothing else. A token of another kind, or of another secret, does nothing.
func TestUnsubscribe(t *testing.T) {
	store := testStore(t)
	w := newWorld(t, func(o *Options) {
		o.Preferences, o.AckSecrets = store, func() []string { return []string{ackSecret} }
	})
	w.must(http.StatusOK, "PUT", "/v1/preferences/u", `{"locale":"de","notification_types":{"bill":true}}`)
	link := func(typ string) string {
		return unsubscribe.URL(w.url, []string{ackSecret}, unsubscribe.Link{
			Tenant: "default", User: "u", Channel: "email", Type: typ,
		})
	}
	kept := func() string { return w.must(http.StatusOK, "GET", "/v1/preferences/u", "").body }
	before := kept()
	if code, page := w.follow(http.MethodGet, link("offers")); code != 200 || !strings.Contains(page, "<button") {
		t.Errorf("%d: %s", code, page)
	}
	if kept() != before {
		t.Errorf("following a link has changed them: %s", kept())
	}
	for range 2 {
		if code, page := w.follow(http.MethodPost, link("offers")); code != 200 || strings.Contains(page, "<button") {
			t.Errorf("%d: %s", code, page)
		}
	}
	if now := kept(); !strings.Contains(now, `"offers":{"email":false}`) || !strings.Contains(now, `"bill":true`) ||
		!strings.Contains(now, `"opted_out_channels":[]`) || !strings.Contains(now, `"locale":"de"`) {
		t.Errorf("of the type: %s", now)
	}
	if code, _ := w.follow(http.MethodPost, link("")); code != 200 {
		t.Error(code)
	}
	if now := kept(); !strings.Contains(now, `"opted_out_channels":["email"]`) {
		t.Errorf("of the channel: %s", now)
	}
	other := unsubscribe.Link{User: "v", Channel: "sms"}
	good := strings.TrimPrefix(link(""), w.url+unsubscribe.Path)
	for name, url := range map[string]string{
		"forged":            w.url + unsubscribe.Path + good[:len(good)-2] + "xx",
		"another secret":    unsubscribe.URL(w.url, []string{"fedcba9876543210"}, other),
		"as to acknowledge": w.url + acklink.Path + good,
	} {
		if code, _ := w.follow(http.MethodPost, url); code != http.StatusNotFound {
			t.Errorf("%s: %d", name, code)
		}
	}
}

// A link opts out also where the user's document does not parse.
func TestUnsubscribeDamaged(t *testing.T) {
	store := testStore(t)
	w := newWorld(t, func(o *Options) {
		o.Preferences, o.AckSecrets = store, func() []string { return []string{ackSecret} }
	})
	if err := store.Put(t.Context(), preferences.User{Tenant: "default", ID: "u"}, &preferences.Preferences{
		OptedOut: []string{"sms"}, Locale: "de", Quiet: &preferences.Quiet{From: 5000, To: 5001},
	}); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusServiceUnavailable, "GET", "/v1/preferences/u", "")
	of := unsubscribe.Link{Tenant: "default", User: "u", Channel: "email"}
	link := unsubscribe.URL(w.url, []string{ackSecret}, of)
	if code, page := w.follow(http.MethodPost, link); code != http.StatusOK || strings.Contains(page, "<button") {
		t.Fatalf("%d: %s", code, page)
	}
	if now := w.must(http.StatusOK, "GET", "/v1/preferences/u", "").body; !strings.Contains(now, `["sms","email"]`) ||
		!strings.Contains(now, `"locale":"de"`) {
		t.Errorf("afterwards: %s", now)
	}
}

func TestUnsubscribeWithoutSecret(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Preferences = testStore(t) })
	w.must(http.StatusNotFound, "POST", "/u/x", "")
	w.must(http.StatusNotFound, "GET", "/u/x", "")
}
