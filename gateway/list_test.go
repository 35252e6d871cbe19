package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// listed follows the cursors of a list and returns the ids in their order.
func listed(t *testing.T, w *world, query string) []string {
	t.Helper()
	var ids []string
	for cursor, pages := "", 0; ; pages++ {
		if pages == 1000 {
			t.Fatalf("%s: the list does not end", query)
		}
		var page struct {
			Items []struct {
				TriggerID string `json:"trigger_id"`
			}
			NextCursor string `json:"next_cursor"`
		}
		a := w.must(http.StatusOK, "GET", "/v1/triggers?"+query+cursor, "")
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Items {
			ids = append(ids, i.TriggerID)
		}
		if page.NextCursor == "" {
			return ids
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 30 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/t%02d", i), fmt.Sprintf(
			`{"fire_at":"2060-01-%02dT00:00:00Z","user_id":"u%d","channel":"c%d","tags":{"parity":"%d"}}`, 30-i, i%2,
			i%3, i%2))
	}
	w.must(http.StatusOK, "POST", "/v1/triggers/t04:pause", "")
	w.must(http.StatusOK, "DELETE", "/v1/triggers/t06", "")
	w.engine.fire("t08")
	every := func(pick func(int) bool) (ids []string) {
		for i := range 30 {
			if pick(i) {
				ids = append(ids, fmt.Sprintf("t%02d", i))
			}
		}
		return ids
	}
	reversed := func(ids []string) []string { slices.Reverse(ids); return ids }
	for _, c := range []struct {
		name, query string
		want        []string
	}{
		{"all, by id", "", every(func(int) bool { return true })},
		{"in small pages", "limit=4", every(func(int) bool { return true })},
		{"one at a time", "limit=1", every(func(int) bool { return true })},
		{"a page of exactly all", "limit=30", every(func(int) bool { return true })},
		{"channel", "channel=c1&limit=3", every(func(i int) bool { return i%3 == 1 })},
		{"tag", "tag=parity:1&limit=7", every(func(i int) bool { return i%2 == 1 })},
		{"two filters", "tag=parity:1&channel=c1", every(func(i int) bool { return i%6 == 1 })},
		{"state", "state=PAUSED", []string{"t04"}},
		{"states in either case", "state=cancelled,Fired", []string{"t06", "t08"}},
		{"pending", "state=PENDING&limit=9", every(func(i int) bool { return i != 4 && i != 6 && i != 8 })},
		{"user, by due time", "user_id=u1&limit=4", reversed(every(func(i int) bool { return i%2 == 1 }))},
		{
			"user, pending", "user_id=u0&state=PENDING&limit=2",
			reversed(every(func(i int) bool { return i%2 == 0 && i != 4 && i != 6 && i != 8 })),
		},
		{"from, to", "from=2060-01-10T00:00:00Z&to=2060-01-12T00:00:00Z", []string{"t19", "t20"}},
		{"nobody", "user_id=nobody", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := listed(t, w.on(t), c.query); !slices.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// A partition that gives up early for its budget must not hide what it has.
func TestListWithinBudget(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ListBudget = 2 })
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("t%02d", i)
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(fmt.Sprintf(`,"channel":"c%d"`, i%5)))
		if i%5 == 3 {
			want = append(want, id)
		}
	}
	if got := listed(t, w, "channel=c3&limit=2"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListRefusals(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", at(""))
	w.must(http.StatusCreated, "PUT", "/v1/triggers/b", at(""))
	cursor := w.must(http.StatusOK, "GET", "/v1/triggers?limit=1", "").get(t, "next_cursor")
	for _, c := range []struct{ name, query, field string }{
		{"state", "state=SLEEPING", "state"},
		{"hidden state", "state=UNKNOWN", "state"},
		{"limit 0", "limit=0", "limit"},
		{"limit too large", "limit=1001", "limit"},
		{"limit no number", "limit=x", "limit"},
		{"tag", "tag=x", "tag"},
		{"from", "from=yesterday", "from"},
		{"to", "to=2060-01-01T00:00", "to"},
		{"a typing error", "usr_id=u", "usr_id"},
		{"cursor garbled", "cursor=xyz", "cursor"},
		{"cursor not base64", "cursor=%21", "cursor"},
		{"cursor cut", "cursor=" + cursor[:len(cursor)-2], "cursor"},
		{"cursor of another question", "user_id=u&cursor=" + cursor, "cursor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers?"+c.query, ""); a.get(t, "field") != c.field {
				t.Errorf("field %q, want %q", a.get(t, "field"), c.field)
			}
		})
	}
	w.must(http.StatusOK, "GET", "/v1/triggers?limit=7&cursor="+cursor, "")
}

func TestBatch(t *testing.T) {
	w := newWorld(t, nil)
	a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", strings.Join([]string{
		`{"id":"b1","fire_at":"` + farAhead + `"}`,
		`{"id":"b2","fire_at":"soon"}`,
		``,
		`{"id":"b1","op":"pause"}`,
		`{"id":"b1","op":"pause","chanel":"x"}`,
		`{"op":"cancel","id":"never"}`,
		`{"op":"erase","id":"b1"}`,
		`{"op":"pause"}`,
		`not json`,
		`{"fire_at":"` + farAhead + `","idempotency_key":"k"}`,
		`{"id":"b1","op":"cancel"}`,
	}, "\n"), "Content-Type", "application/x-ndjson")
	want := []struct{ id, status, code, line, state string }{
		{"b1", "201", "", "", ""},
		{"b2", "422", "invalid", "2", ""},
		{"b1", "200", "", "", "PAUSED"},
		{"b1", "422", "unknown_field", "5", ""},
		{"never", "404", "not_found", "6", ""},
		{"b1", "422", "unknown_op", "7", ""},
		{"", "422", "invalid", "8", ""},
		{"", "400", "malformed", "9", ""},
		{idFor("default", "k"), "201", "", "", ""},
		{"b1", "200", "", "", "CANCELLED"},
	}
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), a.body)
	}
	for i, line := range lines {
		got := answer{body: line}
		for name, v := range map[string]string{
			"id": want[i].id, "status": want[i].status, "code": want[i].code,
			"line": want[i].line, "state": want[i].state,
		} {
			if got.get(t, name) != v {
				t.Errorf("line %d: %s is %q, want %q: %s", i+1, name, got.get(t, name), v, line)
			}
		}
	}
}

func TestBatchBounds(t *testing.T) {
	w := newWorld(t, nil)
	var b strings.Builder
	for i := range maxBatch {
		fmt.Fprintf(&b, `{"id":"n%d","delay":"1000d"}`+"\n", i)
	}
	full := w.must(http.StatusOK, "POST", "/v1/triggers:batch", b.String())
	lines := strings.Split(strings.TrimSpace(full.body), "\n")
	if len(lines) != maxBatch {
		t.Fatalf("%d answers", len(lines))
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"id":"n%d","status":201,`, i)) {
			t.Fatalf("line %d answers %s", i+1, line)
		}
	}
	over := w.must(http.StatusOK, "POST", "/v1/triggers:batch", b.String()+`{"id":"last","delay":"1m"}`)
	lines = strings.Split(strings.TrimSpace(over.body), "\n")
	if last := (answer{body: lines[len(lines)-1]}); len(lines) != maxBatch+1 || last.get(t, "code") != "too_large" {
		t.Errorf("%d lines, the last %s", len(lines), last.body)
	}
	huge := w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		strings.Repeat(`{"id":"same","delay":"1000d"}`+strings.Repeat(" ", 200<<10)+"\n", maxBatchBytes/(200<<10)+1))
	if lines = strings.Split(strings.TrimSpace(huge.body), "\n"); !strings.Contains(lines[len(lines)-1],
		`"too_large"`) || !strings.Contains(lines[0], `"status":201`) {
		t.Errorf("a batch too large answers %d lines, the last %s", len(lines), lines[len(lines)-1])
	}
	long := w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		`{"id":"ok","delay":"1m"}`+"\n"+strings.Repeat("x", 1<<20))
	if lines = strings.Split(strings.TrimSpace(long.body), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[1], `"too_large"`) {
		t.Errorf("a long line answers %s", long.body)
	}
}

func TestReminders(t *testing.T) {
	w := newWorld(t, nil)
	a := w.must(http.StatusCreated, "POST", "/api/reminders", `{"user_id":"u1","title":"Take pills","body":"two","fire_at":"2060-04-17T09:00",
		"timezone":"America/New_York","channel":"push","recurrence":"RRULE:FREQ=DAILY","payload":{"k":1}}`)
	id := a.get(t, "reminder_id")
	if id == "" || a.get(t, "fire_at_utc") != "2060-04-17T13:00:00.000Z" || a.get(t, "trigger_id") != id {
		t.Fatalf("answer %s", a.body)
	}
	if a.get(t, "state") != "PENDING" || a.get(t, "revision") != "1" ||
		a.header.Get("Location") != "/api/reminders/"+id {
		t.Errorf("answer %s, Location %q", a.body, a.header.Get("Location"))
	}
	g := w.must(http.StatusOK, "GET", a.header.Get("Location"), "")
	if g.get(t, "title") != "Take pills" || g.get(t, "payload") != `{"body":"two","k":1,"title":"Take pills"}` {
		t.Errorf("reminder %s", g.body)
	}
	list := w.must(http.StatusOK, "GET", "/api/reminders?user_id=u1&status=pending", "")
	if !strings.Contains(list.body, `"reminder_id":"`+id+`"`) ||
		!strings.Contains(list.body, `"fire_at_utc":"2060-04-17T13:00:00.000Z"`) {
		t.Errorf("list %s", list.body)
	}
	if s := w.must(http.StatusOK, "PATCH", "/api/reminders/"+id, `{"skip":"2060-04-17"}`); s.get(t,
		"fire_at_utc") != "2060-04-18T13:00:00.000Z" {
		t.Errorf("skip answers %s", s.body)
	}
	if s := w.must(http.StatusOK, "PATCH", "/api/reminders/"+id, `{"title":"Take the pills"}`); s.get(t,
		"reminder_id") != id {
		t.Errorf("patch answers %s", s.body)
	}
	if g = w.must(http.StatusOK, "GET", "/api/reminders/"+id, ""); g.get(t, "title") != "Take the pills" ||
		g.get(t, "body") != "two" || g.get(t, "payload.k") != "1" {
		t.Errorf("patched %s", g.body)
	}
	revision := w.must(http.StatusOK, "GET", "/api/reminders/"+id, "").get(t, "revision")
	for _, body := range []string{`{"skip":null}`, `{"skip":null,"title":"Take the pills"}`} { // null is nothing
		if s := w.must(http.StatusOK, "PATCH", "/api/reminders/"+id, body); s.get(t,
			"fire_at_utc") != "2060-04-18T13:00:00.000Z" || s.get(t, "revision") != revision {
			t.Errorf("%s answers %s", body, s.body)
		}
	}
	if p := w.must(http.StatusUnprocessableEntity, "PATCH", "/api/reminders/"+id, `{"skip":""}`); p.get(t,
		"field") != "skip" {
		t.Errorf("an empty skip answers %s", p.body)
	}
	before := len(w.state(idKey(id)).Live)
	w.must(http.StatusOK, "POST", "/api/reminders/"+id+"/snooze", `{"minutes":10}`)
	w.must(http.StatusOK, "POST", "/api/reminders/"+id+"/snooze", `{"for":"1h"}`)
	if n := len(w.state(idKey(id)).Live) - before; n != 2 {
		t.Errorf("%d snoozed occurrences, want 2", n)
	}
	w.must(http.StatusUnprocessableEntity, "POST", "/api/reminders/"+id+"/snooze", `{"minutes":"ten"}`)
	w.must(http.StatusUnprocessableEntity, "POST", "/api/reminders/"+id+"/snooze", `{"minutes":1,"for":"1m"}`)
	w.must(http.StatusUnprocessableEntity, "PATCH", "/api/reminders/"+id, `{"skip":"2060-04-19","title":"x"}`)
	w.must(http.StatusUnprocessableEntity, "POST", "/api/reminders", `{"title":"x","payload":[1],"delay":"1m"}`)
	if d := w.must(http.StatusOK, "DELETE", "/api/reminders/"+id, ""); d.get(t, "state") != "CANCELLED" ||
		d.get(t, "reminder_id") != id {
		t.Errorf("delete answers %s", d.body)
	}
	w.must(http.StatusNotFound, "DELETE", "/api/reminders/none", "")
}

// What is not decided yet has no state and no revision to tell.
func TestRemindersToBeDecided(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range [][3]string{
		{"POST", "/api/reminders", at(`,"id":"a:1"`)},
		{"POST", "/api/reminders/a%3A1/snooze", `{"minutes":1}`},
		{"PATCH", "/api/reminders/a%3A1", `{"title":"x"}`},
		{"DELETE", "/api/reminders/a%3A1", ``},
	} {
		a := w.must(http.StatusAccepted, c[0], c[1], c[2], "Prefer", "respond-async")
		if a.body != `{"reminder_id":"a:1","trigger_id":"a:1"}`+"\n" ||
			a.header.Get("Location") != "/api/reminders/a%3A1" {
			t.Errorf("%s %s: %s, Location %q", c[0], c[1], a.body, a.header.Get("Location"))
		}
		for w.state("a:1") == nil {
			time.Sleep(time.Millisecond) // PATCH reads it
		}
	}
}

// A list up to the beginning of time is empty: 0 is an instant, not the lack of
// one.
func TestListUpToZero(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/z", at(""))
	for _, query := range []string{
		"?to=1970-01-01T00:00:00Z", "?to=1970-01-01T00:00:00.001Z",
		"?to=1969-12-31T23:59:59Z",
	} {
		if a := w.must(http.StatusOK, "GET", "/v1/triggers"+query, ""); !strings.Contains(a.body, `"items":[]`) {
			t.Errorf("%s lists %s", query, a.body)
		}
	}
	if a := w.must(http.StatusOK, "GET", "/v1/triggers?from=1970-01-01T00:00:00Z", ""); !strings.Contains(a.body,
		`"z"`) {
		t.Errorf("from 0 lists %s", a.body)
	}
}

// Pages of the default tenant, whose keys stand among all others', do not tell
// how many triggers other tenants have.
func TestListIsNotCutByOthers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.ListBudget = testKeys(t), 200 })
	own := []string{"a", "acme", "acme-1", "acme0", "b", "z"}
	for _, id := range own {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(""), "Authorization", "Bearer "+keyD)
	}
	var lines strings.Builder
	for i := range 4 * 300 {
		fmt.Fprintf(&lines, `{"id":"t%04d","delay":"1d"}`+"\n", i)
	}
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", lines.String(), "Authorization", "Bearer "+keyA)
	a := w.must(http.StatusOK, "GET", "/v1/triggers", "", "Authorization", "Bearer "+keyD)
	var page Triggers
	if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, item := range page.Items {
		ids = append(ids, item.TriggerID)
	}
	if !slices.Equal(ids, own) || page.NextCursor != "" {
		t.Errorf("%v, cursor %q", ids, page.NextCursor)
	}
}
