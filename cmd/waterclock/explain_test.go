package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// oneTrigger starts a server that answers like the gateway for a single trigger.
func oneTrigger(t *testing.T, trigger, events string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/occurrences"):
			fmt.Fprint(
				w,
				`{"items":[{"at":"2026-11-20T14:00:00.000Z","local_time":"2026-11-20T09:00:00[America/New_York]","occurrence":"2026-11-20T09:00:00","note":"overlap: first pass"}]}`,
			)
		case strings.HasSuffix(r.URL.Path, "/events") && r.URL.Query().Get("cursor") == "":
			fmt.Fprint(w, `{"items":[],"next_cursor":"more"}`)
		case strings.HasSuffix(r.URL.Path, "/events") && events == "":
			problemJSON(w, 404, "not_found", "no events")
		case strings.HasSuffix(r.URL.Path, "/events"):
			fmt.Fprint(w, `{"items":[`+events+`]}`)
		case strings.HasSuffix(r.URL.Path, "/missing"):
			problemJSON(w, 404, "not_found", "no such trigger")
		default:
			fmt.Fprint(w, trigger)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestExplain(t *testing.T) {
	url := oneTrigger(
		t,
		`{"trigger_id":"pills","state":"PENDING","revision":3,"fire_at":"2099-11-20T14:00:00.000Z","next_fire_at":"2099-11-20T14:00:12.345Z",
		"timezone":"America/New_York","tzdata":"2019a","recurrence":"RRULE:FREQ=MONTHLY;BYDAY=-1FR","start":"2026-11-20T09:00:00","exclude":["2026-12-25"],
		"dst":{"gap":"skip","overlap":"both"},"jitter":"30s","misfire":"fire_all","expires_after":"1h","priority":"high","calendars":{"names":["us"],"on":"next_business_day"},
		"live":[{"kind":"snoozed","occurrence":"x","at":"2099-11-20T14:30:00.000Z","attempt":1}],"skipped":["2027-01-29T09:00:00"]}`,
		`{"type":"occurrence.misfired","trigger":"pills","count":3,"first":"a","last":"b","reason":"fire_all","occurred_at":"2026-11-20T14:00:00.000Z"}`,
	)
	cli(t, nil, "", "explain", "pills", "--url", url).want(t, exitOK,
		"pills fires next at 2099-11-20T14:00:12.345Z, in ", " days",
		"every month on the last Friday at 09:00, New York time   (RRULE:FREQ=MONTHLY;BYDAY=-1FR)",
		"counts from 2026-11-20T09:00:00",
		"not on 2026-12-25", "left out by hand", "on a day listed in us: it moves to the next business day",
		"by tz release 2019a (the words here are by", "does not fire; one that comes twice fires at both passes",
		"this one 12.345s", "high: among what is due at the same time it goes first",
		"all missed occurrences fire, in order (fire_all)",
		"over 1h late",
		"x was snoozed and fires at", "2026-11-20T09:00:00[America/New_York]", "missed 3, from a to b")
	cli(t, nil, "", "explain", "pills", "--url", url, "-o", "json", "--jq",
		`.why[0].about, .occurrences[0].occurrence, .events[0].count`).
		want(t, exitOK, "rule\n2026-11-20T09:00:00\n3")
	cli(t, nil, "", "explain", "missing", "--url", url).want(t, exitNotFound, "no such trigger")
	// A user who wrote the command over Kafka got no answer.
	refused := oneTrigger(t, "{}", `{"type":"command.rejected","occurred_at":"2026-11-20T14:00:00.000Z","reason":"invalid",
		"detail":"\"soon\" is not a duration"}`)
	cli(t, nil, "", "explain", "missing", "--url", refused).want(t, exitNotFound,
		`no such trigger; its command was refused at 2026-11-20T14:00:00.000Z, invalid: "soon" is not a duration`)
}

// After a snooze of a one-shot, its delay does not explain when it fires.
func TestExplainSnoozed(t *testing.T) {
	events := `{"type":"trigger.registered","scheduled_at":"2099-11-20T15:00:00.000Z","occurred_at":"2099-11-20T12:00:00.000Z"},
		{"type":"occurrence.snoozed","scheduled_at":"2099-11-20T14:00:00.000Z","occurred_at":"2099-11-20T13:00:00.000Z"}`
	for _, row := range []struct{ name, trigger, events, want, not string }{
		{
			"pending",
			`{"trigger_id":"k","state":"PENDING","delay":"3h","fire_at":"2099-11-20T14:00:00.000Z","next_fire_at":"2099-11-20T14:00:00.000Z"}`, events,
			"snoozed    at 2099-11-20T13:00:00.000Z, until 2099-11-20T14:00:00.000Z; before that: 3h after the " +
				"broker appended the command", "  delay ",
		},
		{
			"fired", `{"trigger_id":"k","state":"FIRED","delay":"3h","fire_at":"2099-11-20T14:00:00Z"}`, events,
			"until 2099-11-20T14:00:00.000Z", "  delay ",
		},
		{
			"an instant", `{"trigger_id":"k","state":"PENDING","fire_at":"2099-11-20T14:00:00.000Z"}`, events,
			"before that: 2099-11-20T15:00:00.000Z", "  fire_at ",
		},
		{
			"as the history has it",
			`{"trigger_id":"k","state":"PENDING","delay":"3h","fire_at":"2099-11-20T14:00:00.000Z"}`,
			events,
			"2099-11-20T13:00:00.000Z  snoozed until 2099-11-20T14:00:00.000Z", "  delay ",
		},
		{
			"rescheduled since",
			`{"trigger_id":"k","state":"PENDING","delay":"1h","fire_at":"2099-11-20T14:30:00.000Z"}`,
			events + `,{"type":"trigger.rescheduled","scheduled_at":"2099-11-20T14:30:00.000Z"}`,
			"delay      1h after the broker", "  snoozed ",
		},
		{
			"a series, which goes on",
			`{"trigger_id":"k","state":"PENDING","recurrence":"every:1h","fire_at":"2099-11-20T14:00:00.000Z"}`, events,
			"every hour", "  snoozed    at",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := cli(t, nil, "", "explain", "k", "--url", oneTrigger(t, row.trigger, row.events))
			if r.want(t, exitOK, row.want); strings.Contains(strings.Split(r.out, "next occurrences")[0], row.not) {
				t.Errorf("output has %q:\n%s", row.not, r.out)
			}
		})
	}
}

func TestOccurrences(t *testing.T) {
	url := oneTrigger(t, "{}", "")
	cli(t, nil, "", "occurrences", "pills", "-n", "1", "--url", url).want(t, exitOK, "2026-11-20T14:00:00.000Z",
		"2026-11-20T09:00:00[America/New_York]", "overlap: first pass")
	cli(t, nil, "", "occurrences", "pills", "--url", url, "-o", "ndjson", "--jq", ".occurrence").want(t, exitOK,
		"2026-11-20T09:00:00\n")
}

func TestExplainOthers(t *testing.T) {
	for _, row := range []struct {
		name, trigger string
		want          []string
	}{
		{
			"delay", `{"trigger_id":"k","state":"FIRED","delay":"7m","last_fired_at":"2026-11-20T14:00:00.000Z"}`,
			[]string{"k has fired at 2026-11-20T14:00:00.000Z", "7m after the broker appended the command"},
		},
		{
			"wall time",
			`{"trigger_id":"k","state":"PENDING","fire_at":"2099-01-01T00:00:00Z","next_fire_at":"2099-01-01T00:00:00Z","local_time":"2099-01-01T09:00:00[Asia/Tokyo]","timezone":"Asia/Tokyo"}`,
			[]string{"once, at 2099-01-01T09:00:00[Asia/Tokyo]", "clocks in Asia/Tokyo"},
		},
		{
			"paused", `{"trigger_id":"k","state":"PAUSED","recurrence":"every:15m","note":"on holiday"}`,
			[]string{"k is paused and does not fire", "every 15 minutes", `"on holiday"`},
		},
		{
			"in flight",
			`{"trigger_id":"k","state":"IN_FLIGHT","delay":"7m","last_fired_at":"2026-11-20T14:00:00.000Z"}`,
			[]string{"k went out at 2026-11-20T14:00:00.000Z and waits for its receipt"},
		},
		{
			"ended without firing", `{"trigger_id":"k","state":"FIRED","recurrence":"every:15m"}`,
			[]string{"k has ended, and nothing of it fired"},
		},
		{
			"cancelled", `{"trigger_id":"k","state":"CANCELLED","delay":"1s"}`,
			[]string{"k is CANCELLED and will not fire"},
		},
		{
			"a rule of a later version",
			`{"trigger_id":"k","state":"PENDING","recurrence":"moon:full","timezone":"UTC"}`,
			[]string{"rule       moon:full ("},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := cli(t, nil, "", "explain", "k", "--url", oneTrigger(t, row.trigger, ""))
			r.want(t, exitOK, row.want...)
			if strings.Contains(row.trigger, "every:") && strings.Contains(r.out, "clocks in") {
				t.Errorf("elapsed time has no clocks to follow:\n%s", r.out)
			}
		})
	}
}

// The sentence of the API follows the headline. For a trigger that the API no longer shows, it
// stands alone.
func TestExplainBySentence(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/here/explain"):
			fmt.Fprint(w, `{"code":"suppressed","sentence":"Not sent: opted out.","evidence":[{"event_id":"0-1",
				"source":"r/0/1","text":"12:00 suppressed"}],"next":"2099-01-01T00:00:00.000Z","history":true}`)
		case strings.HasSuffix(r.URL.Path, "/gone/explain"):
			fmt.Fprint(w, `{"code":"erased","sentence":"Erased.","evidence":[{"source":"state","text":"ERASED"}],
				"history":true}`)
		case strings.HasSuffix(r.URL.Path, "/nobody/explain"):
			fmt.Fprint(w, `{"code":"unknown","sentence":"There is none.","evidence":[],"history":true}`)
		case strings.HasSuffix(r.URL.Path, "/here"):
			fmt.Fprint(w, `{"trigger_id":"here","state":"FIRED","last_fired_at":"2026-01-01T00:00:00Z"}`)
		default:
			problemJSON(w, 404, "not_found", "no such trigger")
		}
	}))
	defer s.Close()
	cli(t, nil, "", "explain", "here", "--url", s.URL).want(t, exitOK, "here has fired at", "\nNot sent: opted out.\n")
	cli(t, nil, "", "explain", "here", "--url", s.URL, "-o", "json", "--jq", ".code, .evidence[0].event_id").
		want(t, exitOK, "suppressed\n0-1")
	cli(t, nil, "", "explain", "gone", "--url", s.URL).want(t, exitOK, "Erased.\n", "  ERASED")
	cli(t, nil, "", "explain", "gone", "--url", s.URL, "-o", "json", "--jq", ".code").want(t, exitOK, "erased")
	cli(t, nil, "", "explain", "nobody", "--url", s.URL).want(t, exitNotFound, "no such trigger")
}

// An event that a breaker holds back has not failed: it waits, like a retry.
func TestExplainWaiting(t *testing.T) {
	got := liveWords(map[string]any{"kind": "retry", "occurrence": "o", "at": "2026-11-20T14:00:00.000Z"})
	if want := "o waits to be sent again at 2026-11-20T14:00:00.000Z"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDistance(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"2026-11-20T09:00:05Z": ", in 5s", "2026-11-20T10:30:00Z": ", in 1h30m", "2026-11-30T09:00:00Z": ", in 10 days",
		"2026-11-20T08:00:00Z": ", which is now", "soon": "",
	} {
		if got := distance(at, now); got != want {
			t.Errorf("%s: %q, want %q", at, got, want)
		}
	}
}

func TestExplainEscalation(t *testing.T) {
	const events = `{"type":"occurrence.fired","occurrence":"o1","attempt":1,"step":0,"channel":"push"},
		{"type":"delivery.accepted","occurrence":"o1","attempt":1,"step":0,"channel":"push"},
		{"type":"escalation.advanced","occurrence":"o1","attempt":1,"step":1,"channel":"sms"},
		{"type":"escalation.stopped","occurrence":"o1","attempt":1,"step":1,"channel":"sms","reason":"ack"}`
	url := oneTrigger(t, `{"trigger_id":"k","state":"FIRED","delay":"1s","fire_at":"2026-11-20T14:00:00.000Z","escalation":[
		{"channel":"push"},{"after":"10m","channel":"sms"},{"after":"1h","channel":"email"}]}`, events)
	cli(t, nil, "", "explain", "k", "--url", url).want(t, exitOK,
		"escalation push, then sms after 10m, then email after 1h, until one is delivered or somebody reacts",
		"o1: escalated to step 1, channel sms",
		"o1: no further step of its escalation: somebody has acknowledged it (ack)")
}

// For an occurrence in flight, explain shows the attempt, the last answer and the next try.
func TestExplainNamesAttemptAnswerAndNextTry(t *testing.T) {
	const fired = `{"type":"occurrence.fired","trigger":"k","occurrence":"o1","attempt":1,"occurred_at":"2026-11-20T14:00:00.000Z"}`
	for _, c := range []struct{ name, events, want string }{
		{"out", fired, "delivery   o1: attempt 1 went out at 2026-11-20T14:00:00.000Z; there is no answer yet"},
		{
			"retried", fired + `,{"type":"delivery.retried","trigger":"k","occurrence":"o1","attempt":2,"reason":"http_503",` +
				`"detail":"503 after 12 ms","scheduled_at":"2026-11-20T14:00:10.000Z"}`,
			"delivery   o1: attempt 1 was answered http_503 (503 after 12 ms); " +
				"attempt 2 goes out at 2026-11-20T14:00:10.000Z",
		},
		{
			"nobody answered", fired + `,{"type":"delivery.retried","trigger":"k","occurrence":"o1","attempt":2,` +
				`"reason":"connection_refused","scheduled_at":"2026-11-20T14:00:10.000Z"}`,
			"delivery   o1: attempt 1 failed, connection_refused; attempt 2 goes out at 2026-11-20T14:00:10.000Z",
		},
		{
			"postponed", fired + `,{"type":"delivery.postponed","trigger":"k","occurrence":"o1","attempt":1,` +
				`"reason":"breaker_open","scheduled_at":"2026-11-20T14:01:00.000Z"}`,
			"delivery   o1: attempt 1 was postponed, breaker_open; it goes out again at 2026-11-20T14:01:00.000Z",
		},
		{
			"given up", fired + `,{"type":"delivery.dead_lettered","trigger":"k","occurrence":"o1","attempt":6,` +
				`"reason":"http_410","detail":"gone"}`,
			"delivery   o1: given up after attempt 6, http_410 (gone); it is a dead letter, and a redrive tries it " +
				"again",
		},
		{
			"too late", fired + `,{"type":"delivery.delivered","trigger":"k","occurrence":"o1","attempt":1,"reason":"late"}`,
			"delivery   o1: attempt 1 was delivered; that was too late to count",
		},
	} {
		url := oneTrigger(t, `{"trigger_id":"k","state":"IN_FLIGHT","revision":1,
			"fire_at":"2026-11-20T14:00:00.000Z"}`, c.events)
		t.Run(c.name, func(t *testing.T) { cli(t, nil, "", "explain", "k", "--url", url).want(t, exitOK, c.want) })
	}
}
