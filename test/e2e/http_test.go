package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// wants checks status and, where given, code or other fields of an answer:
// name=value.
func wants(t *testing.T, what string, a answer, status int, fields ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: %v, want %d", what, a, status)
		return
	}
	if kind := a.header.Get("Content-Type"); status >= 400 && kind != "application/problem+json" {
		t.Errorf("%s: content type %s", what, kind)
	}
	for _, f := range fields {
		name, want, _ := strings.Cut(f, "=")
		if got := a.str(name); got != want {
			t.Errorf("%s: %s is %q, want %q: %v", what, name, got, want, a)
		}
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	w := newDevWorld(t)
	for _, c := range []struct {
		name string
		do   func(*testing.T, *world)
	}{
		{"duplicates", duplicatesOverHTTP},
		{"entity tags", etags},
		{"verbs", verbsOverHTTP},
		{"problems", problems},
		{"short form", shortForm},
		{"lists", listsOverHTTP},
		{"batch", batch},
		{"events", eventsOverHTTP},
		{"preview", previews},
		{"upcoming", upcoming},
		{"reminders", reminders},
		{"own pages", ownPages},
	} {
		t.Run(c.name, func(t *testing.T) { c.do(t, w) })
	}
}

// duplicatesOverHTTP is docs/formats/commands.md, "Duplicates", case by case.
func duplicatesOverHTTP(t *testing.T, w *world) {
	post := func(body string, headers ...string) answer {
		return w.call(t, http.MethodPost, "/v1/triggers", body, headers...)
	}

	first := post(`{"id":"dup-1","delay":"1h","payload":{"a":1}}`)
	wants(t, "new", first, 201, "trigger_id=dup-1", "revision=1")
	retry := post(`{"id":"dup-1","delay":"1h","payload":{"a":1}}`)
	wants(t, "same content", retry, 200, "revision=1", "fire_at="+first.str("fire_at"))
	wants(t, "same content, other spelling", post(`{"payload":{"a":1},"id":"dup-1","priority":"normal","delay":"1h"}`),
		200, "revision=1")
	wants(t, "delay in other words", post(`{"id":"dup-1","delay":"60m","payload":{"a":1}}`), 200, "revision=2")
	wants(t, "other payload", post(`{"id":"dup-1","delay":"60m","payload":{"a":2}}`), 200, "revision=3")

	keyed := post(`{"delay":"1h"}`, "Idempotency-Key", "k-1")
	wants(t, "a key and no id", keyed, 201, "revision=1")
	wants(t, "the key again", post(`{"delay":"1h"}`, "Idempotency-Key", "k-1"), 200,
		"trigger_id="+keyed.str("trigger_id"), "fire_at="+keyed.str("fire_at"))
	wants(t, "the key with other content", post(`{"delay":"2h"}`, "Idempotency-Key", "k-1"), 422,
		"code=idempotency_conflict")
	if other := post(`{"delay":"1h"}`, "Idempotency-Key", "k-2"); other.str("trigger_id") == keyed.str("trigger_id") {
		t.Errorf("two keys, one trigger: %v", other)
	}

	armed := post(`{"id":"dup-2","delay":"1h"}`, "Idempotency-Key", "a")
	rearmed := post(`{"id":"dup-2","delay":"1h"}`, "Idempotency-Key", "b")
	wants(t, "debounce: same content, new key", rearmed, 200, "revision=2")
	if rearmed.str("fire_at") <= armed.str("fire_at") {
		t.Errorf("not armed again: %v, %v", armed, rearmed)
	}

	wants(t, "cancel", w.call(t, http.MethodDelete, "/v1/triggers/dup-1", ""), 200, "state=CANCELLED")
	wants(t, "cancel again", w.call(t, http.MethodDelete, "/v1/triggers/dup-1", ""), 200, "state=CANCELLED")
	wants(t, "a new life", post(`{"id":"dup-1","delay":"60m","payload":{"a":2}}`), 201, "revision=5")
	wants(t, "cancel nobody", w.call(t, http.MethodDelete, "/v1/triggers/dup-nobody", ""), 404, "code=not_found")

	wants(t, "fires at once", post(`{"id":"dup-3","delay":0}`), 201)
	w.follow(t, "due.default").until(20*time.Second, "dup-3",
		func(recs []*kgo.Record) bool { return hasKeys(recs, "dup-3") })
	wants(t, "same content after it fired", post(`{"id":"dup-3","delay":0}`), 200, "revision=1")
	wants(t, "cancel after it fired", w.call(t, http.MethodDelete, "/v1/triggers/dup-3", ""), 409, "code=already_fired",
		"state=FIRED")
	wants(t, "other ops on what has fired", w.call(t, http.MethodPost, "/v1/triggers/dup-3:pause", ""), 404,
		"code=not_found")
}

func etags(t *testing.T, w *world) {
	const path = "/v1/triggers/tag-1"
	created := w.call(t, http.MethodPut, path, `{"fire_at":"2030-01-01T00:00:00Z","payload":{"a":1},"tags":{"x":"y"}}`,
		"If-None-Match", "*")
	wants(t, "put", created, 201, "revision=1")
	if tag := created.header.Get("ETag"); tag != `"1"` {
		t.Errorf("ETag %s", tag)
	}
	wants(t, "put what is there", w.call(t, http.MethodPut, path, `{"delay":"1h"}`, "If-None-Match", "*"), 412,
		"code=conflict")
	got := w.call(t, http.MethodGet, path, "")
	wants(t, "get", got, 200, "state=PENDING", "fire_at=2030-01-01T00:00:00.000Z",
		"next_fire_at=2030-01-01T00:00:00.000Z", "channel=default", "priority=normal", "tenant=default")
	if tag := got.header.Get("ETag"); tag != `"1"` {
		t.Errorf("ETag of get %s", tag)
	}
	wants(t, "get what is known", w.call(t, http.MethodGet, path, "", "If-None-Match", `"1"`), 304)
	wants(t, "patch a payload", w.call(t, http.MethodPatch, path, `{"payload":{"a":2}}`, "Content-Type",
		"application/merge-patch+json", "If-Match", `"1"`), 200, "revision=2", "fire_at=2030-01-01T00:00:00.000Z")
	wants(t, "patch at an old revision", w.call(t, http.MethodPatch, path, `{"payload":{"a":3}}`, "If-Match", `"1"`),
		412, "code=conflict")
	wants(t, "patch the time", w.call(t, http.MethodPatch, path, `{"fire_at":"2030-02-01T00:00:00Z"}`, "If-Match",
		`"2"`), 200, "revision=3", "fire_at=2030-02-01T00:00:00.000Z")
	a := w.call(t, http.MethodGet, path, "")
	if payload, _ := a.body["payload"].(map[string]any); payload["a"] != 2.0 ||
		fmt.Sprint(a.body["tags"]) != "map[x:y]" {
		t.Errorf("after the patches: %v", a)
	}
	wants(t, "patch a tag away", w.call(t, http.MethodPatch, path, `{"tags":null}`), 200, "revision=4")
	if a := w.call(t, http.MethodGet, path, ""); a.body["tags"] != nil {
		t.Errorf("tags: %v", a)
	}
	wants(t, "put at an old revision", w.call(t, http.MethodPut, path, `{"delay":"1h"}`, "If-Match", `"1"`), 412)
	wants(t, "delete at an old revision", w.call(t, http.MethodDelete, path, "", "If-Match", `"1"`), 412)
	wants(t, "delete", w.call(t, http.MethodDelete, path, "", "If-Match", `"4"`), 200, "state=CANCELLED")
	wants(t, "get what is cancelled", w.call(t, http.MethodGet, path, ""), 200, "state=CANCELLED")
	wants(t, "get nobody", w.call(t, http.MethodGet, "/v1/triggers/tag-nobody", ""), 404, "code=not_found")
	odd := "/v1/triggers/" + "a%3Arun%20%C3%A9"
	wants(t, "put an odd id", w.call(t, http.MethodPut, odd, `{"delay":"1h"}`), 201, "trigger_id=a:run é")
	wants(t, "pause an odd id", w.call(t, http.MethodPost, odd+":pause", ""), 200, "state=PAUSED")
}

func verbsOverHTTP(t *testing.T, w *world) {
	do := func(verb, body string) answer { return w.call(t, http.MethodPost, "/v1/triggers/verb-1:"+verb, body) }
	wants(t, "put", w.call(t, http.MethodPut, "/v1/triggers/verb-1", `{"delay":"1h","channel":"verbs"}`), 201)
	wants(t, "snooze", do("snooze", `{"for":"2h"}`), 200, "state=PENDING", "revision=2")
	wants(t, "snooze until", do("snooze", `{"until":"2030-01-01T00:00:00Z"}`), 200,
		"next_fire_at=2030-01-01T00:00:00.000Z")
	wants(t, "pause", do("pause", `{"note":"closed"}`), 200, "state=PAUSED")
	wants(t, "run", do("run", ""), 200, "state=PAUSED")
	wants(t, "resume", do("resume", ""), 200, "state=PENDING")
	recs := w.follow(t, "due.verbs").until(20*time.Second, "the run",
		func(recs []*kgo.Record) bool { return hasKeys(recs, "verb-1") })
	if id := header(recs[0], "ce_id"); !strings.HasPrefix(id, "verb-1@run-") {
		t.Errorf("ce_id of a run: %s", id)
	}
	wants(t, "put a series", w.call(t, http.MethodPut, "/v1/triggers/verb-2",
		`{"recurrence":"FREQ=DAILY","start":"2030-01-01T09:00","timezone":"Europe/Berlin"}`), 201,
		"fire_at=2030-01-01T08:00:00.000Z")
	a := w.call(t, http.MethodGet, "/v1/triggers/verb-2/occurrences?n=3", "")
	var at []string
	for _, o := range list(a, "occurrences", "items") {
		at = append(at, fmt.Sprint(o["at"]))
	}
	if len(at) != 3 || !strings.HasPrefix(at[2], "2030-01-03T08:00:00") {
		t.Errorf("occurrences: %v", a)
	}
	wants(t, "skip", w.call(t, http.MethodPost, "/v1/triggers/verb-2:skip", `{"occurrence":"2030-01-01"}`), 200,
		"fire_at=2030-01-02T08:00:00.000Z")
	wants(t, "rezone", w.call(t, http.MethodPost, "/v1/triggers/verb-2:rezone", `{"timezone":"America/New_York"}`), 200,
		"fire_at=2030-01-02T14:00:00.000Z")
	wants(t, "async", w.call(t, http.MethodPut, "/v1/triggers/verb-3", `{"delay":"1h"}`, "Prefer", "respond-async"),
		202, "trigger_id=verb-3")
	wants(t, "get behind it", w.call(t, http.MethodGet, "/v1/triggers/verb-3", ""), 200, "state=PENDING")
}

// list is the objects under the first of the names that is there.
func list(a answer, names ...string) (all []map[string]any) {
	for _, name := range names {
		items, ok := a.body[name].([]any)
		for _, i := range items {
			if m, isMap := i.(map[string]any); isMap {
				all = append(all, m)
			}
		}
		if ok {
			return all
		}
	}
	return nil
}

func problems(t *testing.T, w *world) {
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		fields                   []string
	}{
		{"no JSON", "POST", "/v1/triggers", `{"delay":`, 400, nil},
		{"unknown field", "POST", "/v1/triggers", `{"dealy":"1h"}`, 422, []string{"code=unknown_field", "field=dealy"}},
		{"no time", "POST", "/v1/triggers", `{}`, 422, []string{"code=conflicting_time"}},
		{
			"bad zone", "POST", "/v1/triggers", `{"fire_at":"2030-01-01T00:00","timezone":"Mars/Base"}`, 422,
			[]string{"code=unknown_zone", "field=timezone"},
		},
		{
			"microseconds", "POST", "/v1/triggers", `{"fire_at":1900000000000000}`, 422,
			[]string{"code=invalid", "field=fire_at"},
		},
		{
			"large payload", "POST", "/v1/triggers", `{"delay":"1h","payload":"` + strings.Repeat("x", 5000) + `"}`,
			413,
			[]string{"code=too_large", "field=payload"},
		},
		{
			"other tenant's id", "POST", "/v1/triggers", `{"id":"acme/x","delay":"1h"}`, 422,
			[]string{"code=invalid_key"},
		},
		{"wrong method", "DELETE", "/v1/triggers", "", 405, nil},
		{"no such path", "GET", "/v1/trigger", "", 404, nil},
		{"bad limit", "GET", "/v1/triggers?limit=0", "", 400, []string{"field=limit"}},
		{"unknown parameter", "GET", "/v1/triggers?usr_id=a", "", 400, nil},
		{"bad cursor", "GET", "/v1/triggers?cursor=abc", "", 400, []string{"field=cursor"}},
		{"snooze of nothing", "POST", "/v1/triggers/nobody-1:snooze", `{"for":"1m"}`, 404, []string{"code=not_found"}},
		{"unknown verb", "POST", "/v1/triggers/nobody-1:fly", "", 404, nil},
	} {
		wants(t, c.name, w.call(t, c.method, c.path, c.body), c.status, c.fields...)
	}
}

func shortForm(t *testing.T, w *world) {
	a := w.call(t, http.MethodPost, "/v1/triggers",
		`{"callbackUrl":"http://127.0.0.1:1/hook","payload":{"a":1},"delaySeconds":3600}`)
	wants(t, "short form", a, 201, "revision=1")
	if a.str("triggerId") == "" || a.str("fireAt") == "" {
		t.Fatalf("short form: %v", a)
	}
	wants(t, "get it", w.call(t, http.MethodGet, "/v1/triggers/"+a.str("triggerId"), ""), 200, "channel=webhook",
		"fire_at="+a.str("fireAt"))
}

func listsOverHTTP(t *testing.T, w *world) {
	var all []string
	for i := range 25 {
		id := fmt.Sprintf("page-%02d", i)
		all = append(all, id)
		wants(t, id, w.call(t, http.MethodPut, "/v1/triggers/"+id,
			fmt.Sprintf(`{"fire_at":"2034-01-%02dT00:00:00Z","user_id":"pager","tags":{"even":"%v"}}`, i+1, i%2 == 0)),
			201)
	}
	var got []string
	cursor, pages := "", 0
	for {
		a := w.call(t, http.MethodGet, "/v1/triggers?user_id=pager&limit=7&cursor="+cursor, "")
		wants(t, "a page", a, 200)
		for _, i := range list(a, "items") {
			got = append(got, fmt.Sprint(i["trigger_id"]))
		}
		pages++
		if cursor = a.str("next_cursor"); cursor == "" || pages > 10 {
			break
		}
	}
	if !slices.Equal(got, all) || pages != 4 {
		t.Errorf("%d pages: %v", pages, got)
	}
	a := w.call(t, http.MethodGet,
		"/v1/triggers?user_id=pager&tag=even:true&state=PENDING&from=2034-01-05T00:00:00Z&to=2034-01-09T00:00:00Z", "")
	if items := list(a, "items"); len(items) != 2 || items[0]["trigger_id"] != "page-04" {
		t.Errorf("filtered: %v", a)
	}
	if a := w.call(t, http.MethodGet, "/v1/triggers?user_id=nobody", ""); a.body["items"] == nil ||
		len(list(a, "items")) != 0 {
		t.Errorf("empty list: %v", a)
	}
}

func batch(t *testing.T, w *world) {
	body := `{"id":"batch-1","delay":"1h"}
{"id":"batch-2","dealy":"1h"}
not JSON

{"id":"batch-1","delay":"2h"}
{"op":"cancel","id":"batch-1"}
{"delay":"1h","idempotency_key":"b-1"}
`
	a := w.call(t, http.MethodPost, "/v1/triggers:batch", body, "Content-Type", "application/x-ndjson")
	wants(t, "batch", a, 200)
	got := lines(t, a.text)
	want := []string{
		"201 batch-1 1", "422 batch-2 unknown_field", "400 ", "200 batch-1 2", "200 batch-1 CANCELLED",
		"201 ",
	}
	if len(got) != len(want) {
		t.Fatalf("%d answers: %v", len(got), a)
	}
	for i, line := range got {
		word := fmt.Sprint(line["status"], " ", orEmpty(line["id"]), " ", orEmpty(line["code"]), orEmpty(line["state"]),
			orEmpty(line["revision"]))
		if !strings.HasPrefix(word, want[i]) && !(i == 4 && strings.Contains(word, "CANCELLED")) {
			t.Errorf("line %d: %s, want %s: %v", i+1, word, want[i], line)
		}
	}
}

func orEmpty(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// eventsOverHTTP pages through what happened, and follows what happens.
func eventsOverHTTP(t *testing.T, w *world) {
	wants(t, "put", w.call(t, http.MethodPut, "/v1/triggers/told", `{"delay":"1h","payload":{"a":1}}`), 201)
	for i := range 4 {
		wants(t, "snooze", w.call(t, http.MethodPost, "/v1/triggers/told:snooze", fmt.Sprintf(`{"for":"%dh"}`, i+1)),
			200)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+w.node.http+"/v1/triggers/told/events?follow=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("follow: %s %s", resp.Status, kind)
	}
	var logged []string
	var seqs []float64
	lastID := ""
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		if id, ok := strings.CutPrefix(scan.Text(), "id: "); ok {
			lastID = id
		}
		data, ok := strings.CutPrefix(scan.Text(), "data: ")
		if !ok {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		logged = append(logged, fmt.Sprint(e["type"]))
		seqs = append(seqs, e["seq"].(float64))
		if len(logged) == 5 { // all there was: now something happens
			wants(t, "run", w.call(t, http.MethodPost, "/v1/triggers/told:run", ""), 200)
		}
		if e["type"] == "occurrence.fired" {
			break
		}
	}
	want := []string{
		"trigger.registered", "occurrence.snoozed", "occurrence.snoozed", "occurrence.snoozed",
		"occurrence.snoozed", "occurrence.fired",
	}
	if !slices.Equal(logged, want) || !slices.Equal(seqs, []float64{1, 2, 3, 4, 5, 6}) || lastID == "" {
		t.Errorf("followed: %v %v, id %q", logged, seqs, lastID)
	}
	var paged []string
	for deadline := time.Now().Add(10 * time.Second); len(paged) < len(want) &&
		time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		paged = pagedEvents(t, w) // the history follows the log
	}
	if !slices.Equal(paged, want) {
		t.Errorf("paged: %v", paged)
	}
	wants(t, "events of nobody", w.call(t, http.MethodGet, "/v1/triggers/told-nobody/events", ""), 404)
}

// pagedEvents are the types of a trigger's events, four to a page.
func pagedEvents(t *testing.T, w *world) (types []string) {
	for cursor := ""; ; {
		a := w.call(t, http.MethodGet, "/v1/triggers/told/events?limit=4&cursor="+cursor, "")
		wants(t, "events", a, 200)
		for _, e := range list(a, "items") {
			types = append(types, fmt.Sprint(e["type"]))
		}
		if cursor = a.str("next_cursor"); cursor == "" {
			return types
		}
	}
}

func previews(t *testing.T, w *world) {
	a := w.call(t, http.MethodPost, "/v1/preview", `{"fire_at":"2026-03-08T02:30","timezone":"America/New_York"}`)
	wants(t, "preview", a, 200)
	if want := `{"occurrences":[{"at":"2026-03-08T07:30:00Z","local":"2026-03-08T03:30:00-04:00","note":"gap: shifted 1h"}]}`; strings.TrimSpace(a.text) != want {
		t.Errorf("preview: %s, want %s", a.text, want)
	}
	wants(t, "refused rule", w.call(t, http.MethodPost, "/v1/preview", `{"recurrence":"FREQ=YEARLY;BYMONTHDAY=1"}`),
		422, "code=disputed_rule")
	wants(t, "no limits", w.call(t, http.MethodPost, "/v1/preview", `{"recurrence":"FREQ=SECONDLY","n":2}`), 200)
}

// upcoming counts what will fire, recurrences included, and follows what is registered.
func upcoming(t *testing.T, w *world) {
	at := time.Now().Add(30 * time.Hour).UTC().Truncate(time.Hour).Add(30 * time.Minute)
	for i := range 3 {
		wants(t, "put", w.call(t, http.MethodPut, fmt.Sprintf("/v1/triggers/up-%d", i),
			fmt.Sprintf(`{"fire_at":%q,"channel":"upcoming"}`, at.Format(time.RFC3339))), 201)
	}
	wants(t, "put", w.call(t, http.MethodPut, "/v1/triggers/up-every", fmt.Sprintf(
		`{"recurrence":"every:1h","start":%q,"channel":"upcoming"}`, at.Add(-2*time.Hour).Format(time.RFC3339))), 201)
	got := 0
	for deadline := time.Now().Add(time.Minute); got != 4; time.Sleep(200 * time.Millisecond) {
		if got = upcomingAt(t, w, at); time.Now().After(deadline) { // owners count anew from time to time
			t.Fatalf("%d occurrences at %v, want 4", got, at)
		}
	}
}

func upcomingAt(t *testing.T, w *world, at time.Time) int {
	t.Helper()
	a := w.call(t, http.MethodGet, "/v1/upcoming?bucket=1h&n=48", "")
	wants(t, "upcoming", a, 200)
	for _, b := range list(a, "items") {
		from, err := time.Parse(time.RFC3339, fmt.Sprint(b["at"]))
		if err != nil {
			t.Fatal(err)
		}
		if !at.Before(from) && at.Before(from.Add(time.Hour)) {
			channels, _ := b["channels"].(map[string]any)
			n, _ := channels["upcoming"].(float64)
			return int(n)
		}
	}
	t.Fatalf("no bucket for %v: %v", at, a)
	return 0
}

// reminders are the aliases of seed 001.
func reminders(t *testing.T, w *world) {
	a := w.call(t, http.MethodPost, "/api/reminders",
		`{"title":"Pills","body":"two","fire_at":"2030-01-01T09:00","timezone":"Europe/Berlin","user_id":"ru"}`)
	wants(t, "create", a, 201, "fire_at_utc=2030-01-01T08:00:00.000Z")
	id := a.str("reminder_id")
	if id == "" || id != a.str("trigger_id") {
		t.Fatalf("create: %v", a)
	}
	got := w.call(t, http.MethodGet, "/api/reminders?status=pending&user_id=ru", "")
	if items := list(got, "items"); len(items) != 1 || items[0]["reminder_id"] != id || items[0]["title"] != "Pills" {
		t.Errorf("list: %v", got)
	}
	wants(t, "snooze by minutes", w.call(t, http.MethodPost, "/api/reminders/"+id+"/snooze", `{"minutes":10}`), 200,
		"reminder_id="+id, "state=PENDING")
	wants(t, "snooze for", w.call(t, http.MethodPost, "/api/reminders/"+id+"/snooze", `{"for":"10m"}`), 200)
	b := w.call(t, http.MethodPost, "/api/reminders",
		`{"title":"Daily","recurrence":"FREQ=DAILY","start":"2026-12-24T09:00","timezone":"UTC"}`)
	wants(t, "create a series", b, 201)
	wants(t, "skip one", w.call(t, http.MethodPatch, "/api/reminders/"+b.str("reminder_id"), `{"skip":"2026-12-25"}`),
		200)
	wants(t, "new title", w.call(t, http.MethodPatch, "/api/reminders/"+b.str("reminder_id"), `{"title":"Every day"}`),
		200)
	wants(t, "read", w.call(t, http.MethodGet, "/api/reminders/"+b.str("reminder_id"), ""), 200, "title=Every day")
	wants(t, "delete", w.call(t, http.MethodDelete, "/api/reminders/"+id, ""), 200, "state=CANCELLED")
}

func ownPages(t *testing.T, w *world) {
	for path, kind := range map[string]string{
		"/openapi.json": "application/json", "/docs": "text/html",
		"/schemas/command.schema.json": "application/schema+json",
		"/schemas/event.schema.json":   "application/schema+json", "/healthz": "text/plain", "/readyz": "text/plain",
		"/metrics": "text/plain",
	} {
		a := w.call(t, http.MethodGet, path, "")
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), kind) || a.text == "" {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
	metrics := w.call(t, http.MethodGet, "/metrics", "").text
	for _, name := range []string{
		"fire_lateness_seconds", "oldest_overdue_seconds", "pending_triggers", "commands_total", "commands_lag_records",
		"commands_forwarded_total",
		"fires_total", "transaction_seconds", "barrier_hold_seconds", "clock_offset_seconds", "restore_seconds",
		"store_bytes",
	} {
		if !strings.Contains(metrics, "# TYPE waterclock_"+name+" ") {
			t.Errorf("no metric waterclock_%s", name)
		}
	}
}

// TestRepeatAfterKill9: dev dies between a write and its answer. Whoever got
// none repeats under the same key, and there is one trigger, which fires once.
func TestRepeatAfterKill9(t *testing.T) {
	t.Parallel()
	w := newDevWorld(t)
	due := time.Now().Add(15 * time.Second).UTC().Truncate(time.Second)
	body := fmt.Sprintf(`{"fire_at":%q,"channel":"repeats"}`, due.Format(time.RFC3339))
	key := func(i int) string { return fmt.Sprintf("repeat-%d", i) }
	post := func(i int) (answer, error) {
		return w.tryCall(http.MethodPost, "/v1/triggers", body, "Idempotency-Key", key(i))
	}
	// Each writer sends one request after the other until one has no answer, so the process
	// dies under all of them.
	const writers, enough = 8, 40
	var mu sync.Mutex
	var wg sync.WaitGroup
	n, first, answered := 0, map[int]string{}, make(chan struct{})
	for range writers {
		wg.Go(func() {
			for {
				mu.Lock()
				i := n
				n++
				mu.Unlock()
				a, err := post(i)
				if err != nil || a.status != 200 && a.status != 201 {
					return
				}
				mu.Lock()
				if first[i] = a.str("trigger_id"); len(first) == enough {
					close(answered)
				}
				mu.Unlock()
			}
		})
	}
	<-answered
	w.node.kill()
	wg.Wait()
	w.node.launch()
	w.node.ready(30 * time.Second)
	ids := map[string]int{}
	for i := range n {
		a, err := post(i)
		if err != nil || a.status != 200 && a.status != 201 || first[i] != "" && a.status != 200 {
			t.Fatalf("repeat %d: %v %v", i, a, err)
		}
		id := a.str("trigger_id")
		if first[i] != "" && first[i] != id || a.str("revision") != "1" {
			t.Errorf("repeat %d: %v, was %s", i, a, first[i])
		}
		ids[id]++
	}
	if len(ids) != n || len(first) != n-writers {
		t.Errorf("%d triggers for %d keys, of which %d had an answer", len(ids), n, len(first))
	}
	w.follow(t, "due.repeats").until(time.Minute, "all of them",
		func(recs []*kgo.Record) bool { return len(recs) >= n })
	for _, r := range dump(t, w.brokers, w.topic("due.repeats")) {
		if ids[string(r.Key)]--; ids[string(r.Key)] != 0 {
			t.Errorf("%s fired too often", r.Key)
		}
	}
	w.judge(t)
}
