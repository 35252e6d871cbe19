package console_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// The clock of the browser is three years ahead and its zone is another one: what is still to come is said by the
// server's clock, and each time has its zone.
func TestWrongClockAndZone(t *testing.T) {
	s := dev(t)
	s.put("soon", inAnHour)
	b := s.open(t, 1200, 900)
	const ahead = `const right = Date.now.bind(Date); Date.now = () => right() + 3 * 365 * 864e5;`
	b.do(emulation.SetTimezoneOverride("Pacific/Apia"), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(ahead).Do(ctx)
		return err
	}))
	b.visit("trigger?id=soon")
	b.await("#sentence", "Scheduled")
	b.await("main", "Here, Pacific/Apia")
	var far string
	b.do(chromedp.Evaluate(`document.querySelector('dl.facts time').textContent`, &far))
	minutes := strings.Contains(far, "(in 60 min)") || strings.Contains(far, "(in 59 min)")
	if !minutes || !strings.Contains(far, " UTC ") {
		t.Errorf("it fires %s", far)
	}
}

// Behind a proxy that takes a path away, every page, act and stream is below that path.
func TestBelowAPath(t *testing.T) {
	const prefix = "/tools/clock"
	s := dev(t, "console.prefix="+prefix)
	to, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix(prefix, httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(proxy.Close)
	s.put("pills", daily)
	below := &server{t: t, url: proxy.URL + prefix} // a request to elsewhere fails the test
	b := below.open(t, 1200, 900)
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	b.fill("header input", "pills")
	b.enter()
	b.await("h1", "Found for pills")
	b.click("pills")
	b.await("#sentence", "Scheduled")
	b.click("Pause")
	b.press("dialog button.act")
	b.await("#sentence", "Paused")
	b.await("main .twins", proxy.URL+prefix+"/v1/triggers/pills/explain")
	b.click("Now")
	// The stream is open. It may still bring that pills was paused.
	b.do(chromedp.Poll(`/Nothing yet|pills/.test(document.querySelector('#facts .newest')?.textContent)`, nil,
		chromedp.WithPollingTimeout(time.Minute)))
	s.put("tea", inAnHour)
	b.await("#facts .newest", "tea")
}

// What is at a bound is shown, or refused with a code: keys of 255 bytes full of percent signs, payloads
// of any bytes and of 512 KiB, 10,000 tags, years 1 and 9999, and addresses that nobody would write.
func TestAtTheBounds(t *testing.T) {
	s := dev(t, "limits.payload=512KiB")
	id := strings.Repeat("%2F%", 63) + "%41"
	path := "/v1/triggers/" + url.PathEscape(id)
	raw := make([]byte, 512<<10)
	for i := range raw {
		raw[i] = byte(i)
	}
	s.call("PUT", path, `{"fire_at":"2100-01-01T00:00:00Z","channel":"orders","payload_base64":"`+
		base64.StdEncoding.EncodeToString(raw)+`"}`)
	var tags []string
	for i := range 10_000 {
		tags = append(tags, fmt.Sprintf(`"t%d":"v"`, i))
	}
	for want, body := range map[string]string{
		`"code":"too_large","field":"tags"`:    `{"delay":"1h","tags":{` + strings.Join(tags, ",") + `}}`,
		`"code":"too_large","field":"payload"`: `{"delay":"1h","payload":"` + strings.Repeat("x", 512<<10) + `"}`,
		`"code":"beyond_horizon"`:              `{"fire_at":"9999-12-31T23:59:59Z"}`,
		`"code":"in_the_past"`:                 `{"fire_at":"0001-01-01T00:00:00Z"}`,
	} {
		r, _ := http.NewRequestWithContext(t.Context(), "PUT", s.url+"/v1/triggers/odd", strings.NewReader(body))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode < 400 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", want, answer.StatusCode, text)
		}
	}
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 400", "status of 404", "status of 422"}
	b.visit("trigger?id=" + url.QueryEscape(id))
	b.await("h1", id)
	b.await("#sentence", "Scheduled: it fires Fri 2100-01-01")
	b.click("Show the payload")
	b.await("main pre", "AAECAwQF")
	var length int
	if b.do(chromedp.Evaluate(`document.querySelector('main pre').textContent.length`, &length)); length > 20_000 {
		t.Errorf("%d characters of the payload are shown", length)
	}
	b.await("main", "These are its first 20,000 characters of ")
	b.visit("new")
	b.do(chromedp.SetValue("select[name=kind]", "fire_at", chromedp.ByQuery), chromedp.Evaluate(
		`document.querySelector('select[name=kind]').dispatchEvent(new Event('change'))`, nil))
	for _, year := range []string{"0001", "9999"} {
		b.fill("input[name=fire_at]", year+"-01-01T00:00:00Z")
		b.do(chromedp.WaitVisible(`#preview[aria-busy="false"]`, chromedp.ByQuery))
	}
	for _, address := range []string{
		"forecast?bucket=%3Cscript%3E&n=-1&by=__proto__", "forecast?bucket=1h&n=1e9&by=constructor",
		"trigger?id=%E0%A4%A", "triggers?state=%00&tag=%3D%3D&user_id=%27%22", "search?q=%25%25%E2%80%AE",
		"user?id=..%2F..%2F", "__proto__", "%FF",
		"deliveries?code=%3Cimg%20src%3Dx%3E&channel=../..", "trigger?id=a&occurrence=%3Cb%3E#%22%3E", "..%2f..%2fv1",
	} {
		b.visit(address)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
	}
}
