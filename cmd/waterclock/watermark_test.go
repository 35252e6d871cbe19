package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway"
)

// A wait ends once everything due by the instant has fired: the due event is then below the
// offsets.
func TestWatermarkWaits(t *testing.T) {
	kafka, url := startDev(t, "--set", "watermarks.interval=100ms")
	global := []string{"--brokers", kafka, "--url", url, "-o", "json"}
	at := time.Now().Add(2 * time.Second).UTC().Truncate(time.Millisecond)
	cli(t, nil, "", append(global, "schedule", "k", "--at", at.Format(time.RFC3339Nano), "--channel", "orders",
		"--data", "1")...).want(t, exitOK)
	r := cli(t, nil, "", append(global, "watermark", "--wait", at.Format(time.RFC3339Nano))...)
	r.want(t, exitOK)
	if now := time.Now(); now.Before(at) {
		t.Errorf("it is out at %s, due %s", now, at)
	}
	var all gateway.Watermarks
	if err := json.Unmarshal([]byte(r.out), &all); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	through, err := calendar.ParseInstant(all.FiredThrough)
	if err != nil || through < at.UnixMilli() || len(all.Items) != 4 || len(all.Missing) > 0 {
		t.Errorf("it waited for %s: %s", at, r.out)
	}
	fired := false
	for _, m := range all.Items {
		for topic, ends := range m.Due {
			for _, end := range ends {
				fired = fired || strings.HasSuffix(topic, "orders") && end > 0
			}
		}
	}
	if !fired {
		t.Errorf("nothing is below the offsets: %s", r.out)
	}
	cli(t, nil, "", "--url", url, "watermark", "--channel", "orders").want(t, exitOK, "FIRED THROUGH", "all: 20")
	cli(t, nil, "", "--url", url, "watermark", "--channel", "ordres", "--wait", "2026-03-03T14:00Z").want(t,
		exitNotFound, "no such channel")
	cli(t, nil, "", "--url", url, "watermark", "--wait", "14:00").want(t, exitUsage, "2026-03-03T14:00Z")
	cli(t, nil, "", "--url", url, "watermark", "--wait", "").want(t, exitUsage, "--wait is empty")
}

// Without watermarks a wait would never end. So it ends when the first one should have appeared.
func TestWatermarkOff(t *testing.T) {
	_, url := startDev(t, "--set", "watermarks.interval=off")
	cli(t, nil, "", "--url", url, "watermark", "--wait", "2026-03-03T14:00Z").want(t, exitNotFound,
		"watermarks.interval")
}

// answersInTurn serves the answers one after the other, and repeats the last one.
func answersInTurn(t *testing.T, answers ...string) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		if text == "503" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A wait continues while a partition has no watermark, is behind, or has a due topic that refuses
// records, and while the API restarts. It names each reason once.
func TestWatermarkHeld(t *testing.T) {
	const zero = `{"partition":0,"fired_through":"2026-03-03T14:00:00Z","held":["barrier"]}`
	one := func(through, held string) string {
		return `{"items":[` + zero + `,{"partition":1,"fired_through":"2026-03-03T` + through + `","held":[` + held +
			`]}]}`
	}
	last := strings.Replace(one("14:00:00Z", ""), `{`, `{"fired_through":"2026-03-03T14:00:00Z",`, 1)
	url := answersInTurn(t, `{"items":[`+zero+`],"missing":[1]}`, one("13:59:59.999Z", `"lag"`), "503",
		one("14:00:00Z", `"waterclock.due.push"`), one("14:00:00Z", `"waterclock.due.push"`), last)
	r := cli(t, nil, "", "--url", url, "watermark", "--wait", "2026-03-03T14:00Z")
	r.want(t, exitOK, "all: 2026-03-03T14:00:00Z", "held back by partition 1 writes no watermark\n",
		"held back by partition 1: lag\n", "service_unavailable; retrying")
	if n := strings.Count(r.err, "held back by partition 1: waterclock.due.push\n"); n != 1 {
		t.Errorf("the due topic is named %d times: %s", n, r.err)
	}
	if strings.Contains(r.err, "partition 0") {
		t.Errorf("a partition that is done holds it back: %s", r.err)
	}
}
