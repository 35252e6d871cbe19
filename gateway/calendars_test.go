package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A tenant keeps calendars of its own, which nobody else sees; those of all tenants
// are an operator's to change.
func TestCalendarsOfATenant(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth, o.OwnCalendars, o.CalendarInterval = testKeys(t), 2, time.Minute
		o.Now = func() time.Time { return now }
	})
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	put := func(status int, key, path, date string) string {
		now = now.Add(time.Minute)
		return w.must(status, "PUT", "/v1/calendars/"+path, `{"dates":["`+date+`"]}`, as(key)...).body
	}
	read := func(key, name string) string { return w.call("GET", "/v1/calendars/"+name, "", as(key)...).body }

	put(http.StatusOK, keyO, "office", "2060-01-01")
	if got := read(keyB, "office"); got != `{"name":"office","dates":["2060-01-01"]}`+"\n" {
		t.Errorf("one of all tenants: %s", got)
	}
	own := `{"name":"office","tenant":"acme","dates":["2060-02-02"]}` + "\n"
	if got := put(http.StatusOK, keyA, "office", "2060-02-02"); got != own {
		t.Errorf("put: %s", got)
	}
	for key, want := range map[string]string{keyA: own, keyR: own, keyB: `{"name":"office","dates":["2060-01-01"]}` + "\n"} {
		if got := read(key, "office"); got != want {
			t.Errorf("read: %s, want %s", got, want)
		}
	}
	list := func(key string) string { return w.must(http.StatusOK, "GET", "/v1/calendars", "", as(key)...).body }
	if got := list(keyB); strings.Count(got, `"name"`) != 1 || strings.Contains(got, "acme") {
		t.Errorf("another tenant lists %s", got)
	}
	if got := list(keyA); strings.Count(got, `"name":"office"`) != 2 || strings.Count(got, `"tenant":"acme"`) != 1 {
		t.Errorf("the tenant lists %s", got)
	}

	// No name leads into another tenant's, nor to one of all.
	put(http.StatusUnprocessableEntity, keyB, "acme%2Foffice", "2060-03-03")
	put(http.StatusForbidden, keyA, "office?scope=cluster", "2060-03-03")
	put(http.StatusBadRequest, keyA, "office?scope=world", "2060-03-03")
	put(http.StatusForbidden, keyR, "office", "2060-03-03")
	if got := read(keyA, "office"); got != own {
		t.Errorf("changed to %s", got)
	}
	for _, key := range []string{keyB, keyO} {
		w.must(http.StatusNotFound, "GET", "/v1/calendars/acme%2Foffice", "", as(key)...)
		w.must(http.StatusNotFound, "DELETE", "/v1/calendars/acme%2Foffice", "", as(key)...)
	}
	a := w.must(http.StatusUnprocessableEntity, "POST", "/v1/preview",
		`{"recurrence":"FREQ=DAILY","start":"2060-02-01T09:00","calendars":{"names":["acme/office"],"on":"skip"},"n":1}`, as(keyB)...)
	if strings.Contains(a.body, "2060-02-02") {
		t.Errorf("a preview shows %s", a.body)
	}
	for key, want := range map[string]string{keyA: "2060-02-03", keyB: "2060-02-02"} {
		a := w.must(http.StatusOK, "POST", "/v1/preview",
			`{"recurrence":"FREQ=DAILY","start":"2060-02-02T09:00","calendars":{"names":["office"],"on":"skip"},"n":1}`, as(key)...)
		if !strings.Contains(a.body, want) {
			t.Errorf("preview: %s, want %s", a.body, want)
		}
	}

	// An operator's own tenant is acme.
	if got := put(http.StatusOK, keyO, "office?scope=tenant", "2060-04-04"); !strings.Contains(got, `"tenant":"acme"`) {
		t.Errorf("scope=tenant: %s", got)
	}
	put(http.StatusOK, keyA, "second", "2060-05-05")
	if got := put(http.StatusTooManyRequests, keyA, "third", "2060-05-05"); !strings.Contains(got, "limits.calendars") {
		t.Errorf("one too many: %s", got)
	}
	put(http.StatusOK, keyB, "third", "2060-05-05")
	a = w.must(http.StatusTooManyRequests, "PUT", "/v1/calendars/third", `{"dates":[]}`, as(keyB)...)
	if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "limits.calendar_interval") {
		t.Errorf("at once: %s", a.body)
	}

	now = now.Add(time.Minute)
	w.must(http.StatusOK, "DELETE", "/v1/calendars/office", "", as(keyA)...)
	if got := read(keyA, "office"); !strings.Contains(got, "2060-01-01") {
		t.Errorf("without its own the tenant reads %s", got)
	}
	now = now.Add(time.Minute)
	w.must(http.StatusNotFound, "DELETE", "/v1/calendars/office", "", as(keyA)...)
	w.must(http.StatusForbidden, "DELETE", "/v1/calendars/office?scope=cluster", "", as(keyA)...)
	w.must(http.StatusOK, "DELETE", "/v1/calendars/office", "", as(keyO)...)
}
