package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// With --url, the API reports the active release, and what the next one changes.
func TestTZDataOverHTTP(t *testing.T) {
	answer := `{"active":{"label":"2020a","sha256":"aa","zones":2,"since":"2026-01-01T00:00:00.000Z"},` +
		`"embedded":{"label":"2025c","sha256":"bb","zones":3},"same":false,"ahead":true,` +
		`"changes":[{"zone":"Europe/Berlin","what":"changed","from":"2026-11-25T00:00:00.000Z"}],"clock_changes":[{"at":"2026-12-06T01:00:00.000Z","shift_seconds":-3600,` +
		`"zones":["A/a","A/b","A/c","A/d","A/e","A/f"]}]}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/tzdata" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer api.Close()
	r := cli(t, nil, "", "tzdata", "status", "--url", api.URL)
	for _, want := range []string{
		"2020a", "2025c", "Europe/Berlin from 2026-11-25", "tzdata apply embedded",
		"2026-12-06T01:00:00.000Z: back by 1h in A/a, A/b, A/c, A/d and 2 more",
	} {
		if r.code != exitOK || !strings.Contains(r.out, want) {
			t.Errorf("no %s in %d %s %s", want, r.code, r.out, r.err)
		}
	}
	if r := cli(t, nil, "", "tzdata", "status", "--url", api.URL, "-o", "json"); !strings.Contains(r.out, `"ahead": true`) &&
		!strings.Contains(r.out, `"ahead":true`) {
		t.Errorf("as JSON: %s %s", r.out, r.err)
	}
}

// A cancel carries its note in the query string, whatever characters the note has.
func TestNoteOfACancelOverHTTP(t *testing.T) {
	var got string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.Path + " " + r.URL.Query().Get("note")
		_, _ = io.WriteString(w, `{"trigger_id":"k","state":"CANCELLED","revision":2}`)
	}))
	defer api.Close()
	r := cli(t, nil, "", "cancel", "k", "--note", "asked & paid", "--url", api.URL)
	if want := "DELETE /v1/triggers/k asked & paid"; r.code != exitOK || got != want {
		t.Errorf("%d, asked %s, want %s: %s", r.code, got, want, r.err)
	}
}
