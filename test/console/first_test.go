package console_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A search has its answer in the page, so that it is shown at once: the page does not ask for it again.
func TestSearchIsInThePage(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	for path, text := range map[string]string{
		"search?q=pills": "u_81", "search?q=a%20b'(c)!": "Nothing is named so",
	} {
		b := s.open(t, 1200, 900)
		b.visit(path)
		b.await("main", text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		if asked := strings.Join(b.take(&b.asked), " "); strings.Contains(asked, "v1/search") {
			t.Errorf("%s asks again: %s", path, asked)
		}
	}
}

// With console.enabled=false there is none: no page, no session, and / leads nowhere. The API is as ever.
func TestNoConsole(t *testing.T) {
	s := dev(t, "console.enabled=false")
	get := func(method, path string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if b, _ := io.ReadAll(answer.Body); strings.Contains(string(b), "<script") {
			t.Errorf("%s %s answers a page: %s", method, path, b)
		}
		return answer.StatusCode
	}
	for _, path := range []string{"/", "/console", "/console/", "/console/trigger?id=pills", "/console/runbook"} {
		if status := get("GET", path); status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if status := get("POST", "/console/session"); status != http.StatusNotFound {
		t.Errorf("a session answers %d", status)
	}
	if status := get("GET", "/v1/whoami"); status != http.StatusOK {
		t.Errorf("whoami answers %d", status)
	}
	if out := s.out.String(); strings.Contains(out, "/console/") {
		t.Errorf("its banner names a console: %s", out)
	}
}
