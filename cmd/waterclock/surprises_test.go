package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The output of list is valid input for diff.
func TestListFeedsDiff(t *testing.T) {
	_, url := startDev(t)
	run := func(args ...string) result { return cli(t, nil, "", append(args, "--url", url)...) }
	for _, line := range []string{
		"schedule rule --every FREQ=DAILY --start 2030-01-01T09:00 --tz Europe/Berlin --tag a=b --data {\"x\":1}",
		"schedule wall --at 2030-01-01T09:00 --tz Asia/Tokyo --user u",
		"schedule instant --at 2030-01-01T09:00:00Z --priority high",
		"schedule delay --in 400h --channel orders",
		"schedule every --every 15m --jitter 30s",
	} {
		run(strings.Fields(line)...).want(t, exitOK)
	}
	list := run("list", "-o", "json")
	list.want(t, exitOK, "rule", "delay")
	file := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(file, []byte(list.out), 0o600); err != nil {
		t.Fatal(err)
	}
	run("diff", "-f", file).want(t, exitOK, "nothing differs")
	run("reschedule", "instant", "--at", "2030-01-01T10:00:00Z").want(t, exitOK)
	run("diff", "-f", file).want(t, exitFailed, "instant", "2030-01-01T10:00:00")
}

// A snooze moves a one-shot, and its content stays that of its file: pending, and once it has fired.
func TestDiffAfterASnooze(t *testing.T) {
	kafka, url := startDev(t)
	const text = "- {id: instant, fire_at: 2030-01-01T09:00:00Z}\n" +
		"- {id: wall, fire_at: 2030-01-01T09:00, timezone: Asia/Tokyo}\n" +
		"- {id: gap, fire_at: 2030-03-31T02:30, timezone: Europe/Berlin}\n" +
		"- {id: zoned, fire_at: 2030-01-01T09:00:00+01:00, timezone: Europe/Berlin}\n" +
		"- {id: delay, delay: 400h}\n"
	doors := [][]string{{"--brokers", kafka}, {"--url", url}}
	run := func(in string, args ...string) result { return cli(t, nil, in, args...) }
	run(text, "apply", "-f", "-", "--url", url).want(t, exitOK, "created")
	unchanged := func(when string) {
		t.Helper()
		for _, at := range doors {
			if r := run(text, append([]string{"diff", "-f", "-"}, at...)...); r.code != exitOK {
				t.Errorf("%s, diff %s:\n%s%s", when, at, r.out, r.err)
			}
		}
	}
	unchanged("before")
	keys := []string{"instant", "wall", "gap", "zoned", "delay"}
	for _, key := range keys {
		run("", "snooze", key, "--until", "2031-01-01T10:00:00Z", "--url", url).want(t, exitOK)
	}
	unchanged("snoozed")
	list := run("", "list", "-o", "json", "--url", url)
	run(list.out, "diff", "-f", "-", "--url", url).want(t, exitOK, "nothing differs")
	run(strings.Replace(text, "09:00:00Z", "11:00:00Z", 1), "diff", "-f", "-", "--url", url).want(t, exitFailed,
		"2030-01-01T09:00:00.000Z", "2030-01-01T11:00:00.000Z")
	for _, key := range keys {
		run("", "snooze", key, "--for", "0s", "--url", url).want(t, exitOK)
		run("", "watch", key, "--url", url).want(t, exitOK, "occurrence.fired")
	}
	unchanged("fired")
}

// After a snooze, the output does not show the local time of another instant.
func TestSnoozeShowsItsOwnTime(t *testing.T) {
	kafka, url := startDev(t)
	for door, at := range map[string][]string{"kafka": {"--brokers", kafka}, "http": {"--url", url}} {
		cli(t, nil, "", append([]string{
			"schedule", door, "--every", "FREQ=DAILY", "--start", "2030-01-02T09:00", "--tz",
			"Europe/Berlin",
		}, at...)...).want(t, exitOK, "2030-01-02T09:00:00[Europe/Berlin]")
		r := cli(t, nil, "", append([]string{"snooze", door, "--until", "2030-01-01T10:00:00Z"}, at...)...)
		if r.want(t, exitOK, "2030-01-01T10:00:00.000Z"); strings.Contains(r.out, "Europe/Berlin") {
			t.Errorf("over %s: %s", door, r.out)
		}
	}
}

// watch ends when its trigger has ended.
func TestWatchEnds(t *testing.T) {
	_, url := startDev(t)
	cli(t, nil, "", "schedule", "w", "--in", "100ms", "--url", url).want(t, exitOK)
	begun := time.Now()
	r := cli(t, nil, "", "watch", "w", "--url", url)
	r.want(t, exitOK, "occurrence.fired")
	if took := time.Since(begun); took > time.Minute ||
		!strings.Contains(r.err, "w is FIRED and has ended") {
		t.Errorf("after %v: %s", took, r.err)
	}
}

// The owner can explain a trigger's state even without a history.
func TestExplainWithoutAHistory(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/events"):
			problemJSON(w, 503, "unavailable", "no history is kept")
		case strings.HasSuffix(r.URL.Path, "/occurrences"):
			fmt.Fprint(w, `{"items":[]}`)
		default:
			fmt.Fprint(w,
				`{"trigger_id":"k","state":"PENDING","delay":"7m","fire_at":"2099-01-01T00:00:00Z","next_fire_at":"2099-01-01T00:00:00Z"}`)
		}
	}))
	defer s.Close()
	r := cli(t, nil, "", "explain", "k", "--url", s.URL)
	r.want(t, exitOK, "k fires next at 2099-01-01T00:00:00Z")
	if !strings.Contains(r.err, "not known: what happened to it") || !strings.Contains(r.err, "no history is kept") {
		t.Errorf("said %q", r.err)
	}
}

func TestInFlightIsNotOver(t *testing.T) {
	err := (&decision{TriggerID: "k", State: "IN_FLIGHT", FireAt: "2026-01-01T00:00:00Z"}).noMore()
	if strings.Contains(err.Error(), "will not") || !strings.Contains(err.Error(), "waits for its receipt") {
		t.Error(err)
	}
}

// A user who mixes up the two ports gets an error that says so.
func TestPortsMixedUp(t *testing.T) {
	kafka, url := startDev(t)
	r := cli(t, nil, "", "list", "--url", "http://"+kafka)
	r.want(t, exitFailed)
	if !strings.Contains(r.err, "closed the connection without an HTTP answer") {
		t.Errorf("said %q", r.err)
	}
	r = cli(t, nil, "", "schedule", "k", "--in", "1s", "--brokers", strings.TrimPrefix(url, "http://"))
	r.want(t, exitFailed)
	if !strings.Contains(r.err, "speaks HTTP, not Kafka") {
		t.Errorf("said %q", r.err)
	}
}

// A data directory on this machine does not belong to a server elsewhere.
func TestDoctorOfAServerElsewhere(t *testing.T) {
	kafka, url := startDev(t)
	t.Chdir(t.TempDir())
	cli(t, nil, "", "doctor", "--brokers", kafka, "--url", url, "-o", "json", "--jq",
		`.[]|select(.check=="data dir")|.status+" "+.detail`).want(t, exitOK,
		"skip not checked: there is no data directory here")
}
