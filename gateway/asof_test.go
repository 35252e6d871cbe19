package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// happened is an event of a trigger at an instant.
func happened(seq int64, at, kind, state string, change func(*topics.Event)) topics.Event {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		panic(err)
	}
	e := event("e", t.UnixMicro()-firstEventUS, seq, kind)
	e.OccurredAt, e.State, e.Revision, e.Channel = at, state, 1, "push"
	if change != nil {
		change(&e)
	}
	return e
}

// GET with as_of answers what was known then, and says where the history does not reach.
func TestAsOf(t *testing.T) {
	log := &keptEvents{}
	log.all = append(log.all,
		happened(1, "2026-01-01T10:00:00.000Z", "trigger.registered", "PENDING", func(e *topics.Event) {
			e.NextAt, e.UserID, e.Tags = "2026-01-02T09:00:00.000Z", "ada", map[string]string{"team": "seats"}
			e.Rule = json.RawMessage(`{"fire_at":"2026-01-02T10:00","timezone":"Europe/Berlin","priority":"high"}`)
		}),
		happened(2, "2026-01-01T12:00:00.000Z", "trigger.rescheduled", "PENDING", func(e *topics.Event) {
			e.Revision, e.NextAt, e.Rule = 2, "2026-01-03T09:00:00.000Z", json.RawMessage(`{"delay":"1h","misfire":"skip"}`)
		}),
		happened(3, "2026-01-03T09:00:00.004Z", "occurrence.fired", "FIRED", func(e *topics.Event) {
			e.Revision, e.Attempt, e.FirstFired = 2, 1, "2026-01-03T09:00:00.004Z"
		}),
	)
	w := newWorld(t, func(o *Options) { o.History = log })
	asOf := func(id, at string) string { return "/v1/triggers/" + id + "?as_of=" + at }

	a := w.must(http.StatusOK, "GET", asOf("e", "2026-01-01T12:30:00%2B01:00"), "")
	const first = `{"trigger_id":"e","tenant":"default","state":"PENDING","revision":1,` +
		`"next_fire_at":"2026-01-02T09:00:00.000Z","as_of":"2026-01-01T11:30:00.000Z","channel":"push","misfire":"fire_once",` +
		`"priority":"high","tags":{"team":"seats"},"timezone":"Europe/Berlin","user_id":"ada","attempt":0,` +
		`"created_at":"2026-01-01T10:00:00.000Z","updated_at":"2026-01-01T10:00:00.000Z"}`
	if strings.TrimSpace(a.body) != first {
		t.Errorf("before it was rescheduled:\n%s\nwant\n%s", a.body, first)
	}
	a = w.must(http.StatusOK, "GET", asOf("e", "2026-01-01T12:00:00Z"), "")
	if a.get(t, "next_fire_at") != "2026-01-03T09:00:00.000Z" || a.get(t, "delay") != "1h" ||
		a.get(t, "misfire") != "skip" || a.get(t, "priority") != "normal" {
		t.Errorf("when it was rescheduled: %s", a.body)
	}
	// An instant may have the forms that it has elsewhere: without seconds, or as a number since 1970.
	for _, same := range []string{"2026-01-01T12:00Z", "1767268800", "1767268800000", "2026-01-01t13:00%2b01:00"} {
		if b := w.must(http.StatusOK, "GET", asOf("e", same), ""); b.body != a.body {
			t.Errorf("as of %s: %s", same, b.body)
		}
	}
	a = w.must(http.StatusOK, "GET", asOf("e", "2026-02-01T00:00:00Z"), "")
	if a.get(t, "state") != "FIRED" || a.get(t, "last_fired_at") != "2026-01-03T09:00:00.004Z" ||
		strings.Contains(a.body, "next_fire_at") {
		t.Errorf("after it fired: %s", a.body)
	}
	for name, c := range map[string]struct {
		path, code, want string
		status           int
	}{
		"before it was there": {asOf("e", "2026-01-01T09:59:59Z"), "not_found", "at that instant", 404},
		"nobody":              {asOf("nobody", "2026-01-01T09:59:59Z"), "not_found", "at that instant", 404},
		"garbage":             {asOf("e", "yesterday"), "invalid", "an instant such as", 400},
		"empty":               {asOf("e", ""), "invalid", "an instant such as", 400},
		"no zone":             {asOf("e", "2026-01-01T09:59:59"), "invalid", "an instant such as", 400},
		"the year 0":          {asOf("e", "0000-01-01T00:00:00Z"), "invalid", "an instant such as", 400},
		"the future":          {asOf("e", "2199-01-01T00:00:00Z"), "invalid", "in the future", 400},
		"twice":               {asOf("e", "2026-01-01T12:00:00Z&as_of=x"), "invalid", "twice", 400},
	} {
		if a := w.call("GET", c.path, ""); a.status != c.status || a.get(t, "code") != c.code ||
			!strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}

	log.all = log.all[1:] // retention
	a = w.must(http.StatusGone, "GET", asOf("e", "2026-01-01T11:30:00Z"), "")
	if a.get(t, "code") != "before_history" || a.get(t, "since") != "2026-01-01T12:00:00.000Z" ||
		a.get(t, "field") != "as_of" || a.get(t, "trigger_id") != "e" {
		t.Errorf("before the history: %s", a.body)
	}
	w.must(http.StatusOK, "GET", asOf("e", "2026-01-01T12:00:00Z"), "")
	log.all = log.all[1:]
	a = w.must(http.StatusGone, "GET", asOf("e", "2026-01-05T00:00:00Z"), "")
	if strings.Contains(a.body, "since") {
		t.Errorf("no plan is kept: %s", a.body)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/new", at(""))
	w.must(http.StatusGone, "GET", asOf("new", "2026-01-05T00:00:00Z"), "")
}

// A history that is behind the log does not answer as if it were not.
func TestAsOfWaitsForTheHistory(t *testing.T) {
	e := happened(1, "2026-01-01T10:00:00.000Z", "trigger.registered", "PENDING", func(e *topics.Event) {
		e.Rule = json.RawMessage(`{"delay":"1h"}`)
	})
	log := &keptEvents{all: []topics.Event{e}}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.publisher("e")(e, e)
	a := w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e?as_of=2026-01-01T11:00:00Z", "")
	if !strings.Contains(a.body, "behind the event log") {
		t.Errorf("the history is behind: %s", a.body)
	}
	log.mu.Lock()
	log.next = 2
	log.mu.Unlock()
	w.must(http.StatusOK, "GET", "/v1/triggers/e?as_of=2026-01-01T11:00:00Z", "")

	none := newWorld(t, func(o *Options) { o.History = nil })
	a = none.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e?as_of=2026-01-01T11:00:00Z", "")
	if !strings.Contains(a.body, "no history is kept here") {
		t.Errorf("without a history: %s", a.body)
	}
}
