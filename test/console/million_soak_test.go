//go:build soak

package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestPicturesOfAMillion has a million triggers pending, a tenth of them series, and takes a picture of each page.
func TestPicturesOfAMillion(t *testing.T) {
	const all, atOnce = 1_000_000, 10_000
	s := dev(t)
	began := time.Now()
	for from := 0; from < all; from += atOnce {
		var lines strings.Builder
		for i := from; i < from+atOnce; i++ {
			when := fmt.Sprintf(`"delay":"%dm"`, 60+i%120_000)
			if i%10 == 0 {
				const at = `"recurrence":"FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d","timezone":"America/New_York"`
				when = fmt.Sprintf(at, 7+i/10%5, i/50%60)
			}
			fmt.Fprintf(&lines, `{"op":"register","id":"reminder-%07d",%s,"channel":"%s","user_id":"u_%d"}`+"\n",
				i, when, [...]string{"push", "email", "sms"}[i/10%3], i/20)
		}
		r, err := http.Post(s.url+"/v1/triggers:batch", "application/x-ndjson", strings.NewReader(lines.String()))
		if err != nil {
			t.Fatal(err)
		}
		if _ = r.Body.Close(); r.StatusCode >= 300 {
			t.Fatalf("a batch: %d", r.StatusCode)
		}
	}
	t.Logf("registered after %v", time.Since(began).Round(time.Second))
	s.call("POST", "/v1/triggers/reminder-0000000:run", "")
	for done := time.Now(); ; time.Sleep(time.Second) { // hours are counted every ten minutes
		at, _ := time.Parse(time.RFC3339, fmt.Sprint(s.call("GET", "/v1/forecast?bucket=1h&n=1", "")["as_of"]))
		if at.After(done) {
			break
		}
	}
	b := s.open(t, 1200, 900)
	for _, p := range []struct{ name, path, text string }{
		{"now", "", "1,000,000"},
		{"triggers", "triggers", "reminder-"},
		{"trigger", "trigger?id=reminder-0000000", "FREQ=DAILY"},
		{"forecast", "forecast?bucket=1h&n=168&by=channel", "The highest bar"},
		{"deliveries", "deliveries", "waterclock.due.push"},
		{"system", "system", "fires"},
		{"search", "search?q=u_7", "reminder-"},
		{"user", "user?id=u_0", "push"},
	} {
		b.visit(p.path)
		b.await("main", p.text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		b.picture(p.name + "-million")
	}
}
