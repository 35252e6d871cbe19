package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// fakeAPI answers like the gateway and records the requests.
type fakeAPI struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string     // METHOD path headers body
	late  atomic.Bool  // somebody has asked for the events of the missing trigger
	asks  atomic.Int32 // for the unsteady trigger
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeAPI) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	parts := []string{r.Method, r.URL.EscapedPath() + query(r)}
	for _, h := range []string{
		"If-Match", "If-None-Match", "Idempotency-Key", "Authorization", "Content-Type",
		"Prefer",
	} {
		if v := r.Header.Get(h); v != "" {
			parts = append(parts, h+"="+v)
		}
	}
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(strings.Join(append(parts, string(body)), " ")))
	f.mu.Unlock()
	f.answer(w, r)
}

func (f *fakeAPI) wasAsked(question string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.asked, question)
}

func query(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return "?" + r.URL.RawQuery
}

func (f *fakeAPI) answer(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/missing"):
		problemJSON(w, 404, "not_found", "no such trigger")
	case strings.HasSuffix(path, "/locked"):
		problemJSON(w, 401, "unauthenticated", "no credential")
	case strings.HasSuffix(path, "/late"):
		problemJSON(w, 409, "already_fired", "it has fired")
	case strings.HasSuffix(path, "/stale"):
		problemJSON(w, 412, "conflict", "revision is 9")
	case strings.HasSuffix(path, "/twice"):
		problemJSON(w, 422, "idempotency_conflict", "other content")
	case strings.HasSuffix(path, "/broken"):
		w.WriteHeader(500)
	case strings.HasSuffix(path, "/undecided"), strings.HasSuffix(path, "/refused"):
		w.WriteHeader(202)
		fmt.Fprint(w, `{"trigger_id":"undecided"}`)
	case strings.HasSuffix(path, "/undecided/events"): // the past has a life of its own
		event := `data: {"type":%q,"trigger":"undecided","revision":%d,"occurred_at":%q,"occurrence":%q}` + "\n\n"
		now := time.Now().UTC().Format(time.RFC3339Nano)
		fmt.Fprintf(w, event, "trigger.registered", 1, "2026-11-19T13:00:00Z", "")
		fmt.Fprintf(w, event, "occurrence.fired", 1, "2026-11-19T14:00:00Z", "of before")
		fmt.Fprintf(w, event, "trigger.cancelled", 2, "2026-11-19T15:00:00Z", "")
		fmt.Fprintf(w, event, "trigger.registered", 3, now, "")
		fmt.Fprintf(w, event, "occurrence.fired", 3, now, "the one")
	case strings.HasSuffix(path, "/recent") && r.Method == "PUT":
		w.WriteHeader(202)
		fmt.Fprint(w, `{"trigger_id":"recent"}`)
	case strings.HasSuffix(path, "/recent"):
		fmt.Fprintf(w, `{"trigger_id":"recent","state":"PENDING","revision":1,"updated_at":%q}`,
			time.Now().UTC().Format(time.RFC3339Nano))
	case strings.HasSuffix(path, "/recent/events"): // without a history it begins behind the register
		asks := f.asks.Add(1) // before the caller may come with the next one
		if w.(http.Flusher).Flush(); asks > 1 {
			fmt.Fprintf(w, `data: {"type":"occurrence.fired","revision":1,"occurred_at":%q,"occurrence":"o"}`+"\n\n",
				time.Now().UTC().Format(time.RFC3339Nano))
			return
		}
		<-r.Context().Done()
	case strings.HasSuffix(path, "/forgotten/events"):
		w.(http.Flusher).Flush()
		time.Sleep(overAfter + overAfter/4) // it has no state now
		fmt.Fprint(w, "data: {\"type\":\"trigger.registered\",\"trigger\":\"forgotten\",\"state\":\"PENDING\"}\n\n")
	case strings.HasSuffix(path, "/forgotten"):
		problemJSON(w, 404, "not_found", "no such trigger")
	case strings.HasSuffix(path, "/refused/events"):
		fmt.Fprintf(w, "data: {\"type\":\"command.rejected\",\"occurred_at\":%q,\"reason\":\"conflict\"}\n\n",
			time.Now().UTC().Format(time.RFC3339Nano))
	case strings.HasSuffix(path, "/unsteady"): // as while its partition moves
		if f.asks.Add(1) == 2 {
			problemJSON(w, 503, "unavailable", "the partition moves")
			return
		}
		fmt.Fprint(w, `{"trigger_id":"unsteady","state":"FIRED","revision":1}`)
	case strings.HasSuffix(path, "/belated"):
		fmt.Fprint(w, `{"trigger_id":"belated","state":"FIRED","revision":1}`)
	case strings.HasSuffix(path, "/belated/events"), strings.HasSuffix(path, "/unsteady/events"):
		if strings.Contains(path, "belated") { // its history takes its time
			time.Sleep(overAfter + 200*time.Millisecond)
		}
		fmt.Fprint(w, "data: {\"type\":\"occurrence.fired\",\"trigger\":\"x\",\"state\":\"FIRED\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(path, "/slow"):
		w.WriteHeader(202)
		fmt.Fprint(w, `{"trigger_id":"slow"}`)
	case strings.HasSuffix(path, "/page"):
		fmt.Fprint(w, `<html>`)
	case strings.HasSuffix(path, "/missing/events") && f.late.CompareAndSwap(false, true):
		problemJSON(w, 404, "not_found", "no such trigger")
	case strings.HasSuffix(path, "/over"):
		fmt.Fprint(w, `{"trigger_id":"over","state":"FIRED","revision":3,"fire_at":"2020-11-20T14:00:00.000Z",`+
			`"notes":["its time passed long ago"]}`)
	case strings.HasSuffix(path, "/quiet/events"): // no history, and no future events
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(path, "/series/events"):
		for i, at := range []string{"2026-11-19T14:00:00.001Z", "2026-11-20T14:00:00.001Z"} {
			fmt.Fprintf(w,
				"data: {\"type\":\"occurrence.fired\",\"revision\":3,\"occurred_at\":%q,\"occurrence\":\"number "+
					"%d\"}\n\n", at, i)
		}
	case strings.HasSuffix(path, "/restarted/events"):
		f.restarted(w, r.Header.Get("Last-Event-ID"))
	case strings.HasSuffix(path, "/events"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\nid: 1\ndata: {\"type\":\"occurrence.fired\",\"trigger\":\"k\",\"revision\":1}\n\n"+
			"data: {\"type\":\"occurrence.fired\",\"trigger\":\"k\",\"revision\":3,\"occurrence\":\"the one\"}\n\n")
	case path == "/v1/triggers":
		n := 3
		if r.URL.Query().Get("cursor") == "" {
			fmt.Fprint(w,
				`{"items":[{"trigger_id":"a","state":"PENDING","next_fire_at":"soon"},{"trigger_id":"b\u001b[2J","state":"PAUSED"}],"next_cursor":"more"}`)
			return
		}
		fmt.Fprintf(w, `{"items":[{"trigger_id":"c","state":"FIRED","n":%d}]}`, n)
	default:
		w.Header().Set("ETag", `"3"`)
		fmt.Fprint(w,
			`{"trigger_id":"k","state":"PENDING","revision":3,"next_fire_at":"2026-11-20T14:00:00.000Z","payload":{"n":12345678901234567890},"zzz":true}`)
	}
}

// restarted breaks a stream off behind the first event, is away once, and goes on behind that event.
func (f *fakeAPI) restarted(w http.ResponseWriter, last string) {
	n := f.asks.Add(1)
	switch {
	case n == 2:
		problemJSON(w, 503, "unavailable", "starting")
		return
	case n == 3 && last != "first":
		problemJSON(w, 400, "invalid", "Last-Event-ID is "+last)
		return
	case n == 1:
		fmt.Fprint(w, "id: first\ndata: {\"type\":\"trigger.registered\"}\n\nid: half\n")
	default:
		fmt.Fprint(w, "id: second\ndata: {\"type\":\"occurrence.fired\"}\n\n")
	}
	w.(http.Flusher).Flush()
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func problemJSON(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "detail": detail, "status": status})
}

func (f *fakeAPI) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

func TestGet(t *testing.T) {
	f := newFakeAPI(t)
	cli(t, nil, "", "--url", f.URL, "get", "k").want(t, exitOK, "PENDING", "12345678901234567890", "zzz")
	cli(t, nil, "", "--url", f.URL, "get", "k", "--jq", ".revision").want(t, exitOK, "3")
	cli(t, nil, "", "--url", f.URL, "get", "missing").want(t, exitNotFound, "missing: not_found: no such trigger")
	cli(t, nil, "", "--url", f.URL, "get", "page").want(t, exitFailed, "is not from a Waterclock API")
	cli(t, nil, "", "--url", f.URL, "get", "locked").want(t, exitFailed,
		"unauthenticated: no credential; set your API key in WATERCLOCK_API_KEY")
	cli(t, nil, "", "--url", f.URL, "get", "broken").want(t, exitFailed, "internal_server_error")
	cli(t, []string{"WATERCLOCK_API_KEY=secret"}, "", "--url", f.URL, "get", "acme/a b:c?d").want(t, exitOK)
	if want := "GET /v1/triggers/acme%2Fa%20b%3Ac%3Fd Authorization=Bearer secret"; f.last() != want {
		t.Errorf("asked %q, want %q", f.last(), want)
	}
}

// Inside a company, a private certificate authority is the usual case.
func TestPrivateAuthority(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	cli(t, nil, "", "--url", s.URL, "list").want(t, exitFailed, s.URL+" has a certificate of an authority",
		"SSL_CERT_FILE")
}

func TestCompletionOfKeys(t *testing.T) {
	f := newFakeAPI(t)
	r := cli(t, []string{"WATERCLOCK_URL=" + f.URL}, "", "__complete", "cancel", "")
	r.want(t, exitOK, "a\n:4")
	if strings.Contains(r.out, "2J") {
		t.Errorf("a key commands the terminal: %q", r.out)
	}
	cli(t, []string{"WATERCLOCK_URL=http://" + nobody(t)}, "", "__complete", "cancel", "").want(t, exitOK, ":4")
}

func TestList(t *testing.T) {
	f := newFakeAPI(t)
	r := cli(t, nil, "", "--url", f.URL, "list")
	r.want(t, exitOK, "TRIGGER", "soon", "FIRED")
	if strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, `b\x1b[2J`) {
		t.Errorf("a trigger's name commands the terminal: %q", r.out)
	}
	cli(t, nil, "", "--url", f.URL, "list", "-n", "1", "-o", "ndjson").want(t, exitOK, `"trigger_id":"a"`,
		"more than 1")
	cli(t, nil, "", "--url", f.URL, "list", "--state", "pending", "--tag", "a:b", "--tag", "c=d", "--limit",
		"0").want(t,
		exitOK)
	if want := "GET /v1/triggers?cursor=more&limit=500&state=pending&tag=a%3Ab&tag=c%3Ad"; f.last() != want {
		t.Errorf("asked %q, want %q", f.last(), want)
	}
}

func TestWatch(t *testing.T) {
	f := newFakeAPI(t)
	cli(t, nil, "", "--url", f.URL, "watch", "k").want(t, exitFailed, "occurrence=the one", "ended the stream")
	// A key that does not exist is more likely mistyped than not registered yet.
	cli(t, nil, "", "--url", f.URL, "watch", "missing").want(t, exitNotFound,
		"missing: not_found: no such trigger (--wait waits for it)")
	cli(t, nil, "", "--url", f.URL, "watch", "missing", "--wait").want(t, exitFailed, "ended the stream")
	if want := "GET /v1/triggers/missing/events?follow=1"; f.last() != want {
		t.Errorf("asked %q, want %q", f.last(), want)
	}
}

// TestStreamComesBack: an API restarts while somebody follows a trigger.
func TestStreamComesBack(t *testing.T) {
	f := newFakeAPI(t)
	from := &api{base: f.URL, client: &http.Client{}}
	var got []string
	err := from.stream(t.Context(), followPath("restarted"), nil, func(e *topics.Event) bool {
		got = append(got, e.Type)
		return e.Type == "occurrence.fired"
	})
	if err != nil || !slices.Equal(got, []string{"trigger.registered", "occurrence.fired"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Commands go through the API if its source is stronger than that of the brokers.
func TestCommandsOverHTTP(t *testing.T) {
	f := newFakeAPI(t)
	for _, row := range []struct {
		name  string
		args  []string
		code  int
		asked string
		want  string
	}{
		{
			"register",
			[]string{"schedule", "k", "--in", "7m", "--if-absent", "--idempotency-key", "i"},
			exitOK,
			`PUT /v1/triggers/k Idempotency-Key=i Content-Type=application/json {"delay":"7m","if_absent":true}`,
			"PENDING",
		},
		{
			"cancel",
			[]string{"cancel", "k", "--if-revision", "3"},
			exitOK, `DELETE /v1/triggers/k If-Match="3"`,
			"revision  3",
		},
		{
			"reschedule takes the other time fields away",
			[]string{"reschedule", "k", "--at", "2026-11-20T09:00:00Z"},
			exitOK,
			`PATCH /v1/triggers/k Content-Type=application/merge-patch+json {"calendars":null,"count":null,"delay":null,"dst":null,"exclude":null,` +
				`"fire_at":"2026-11-20T09:00:00Z","include":null,"recurrence":null,"start":null,"timezone":null,"until":null}`, "",
		},
		{"run", []string{"run", "a:b"}, exitOK, `POST /v1/triggers/a%3Ab:run Content-Type=application/json {}`, ""},
		{
			"snooze",
			[]string{"snooze", "k", "--for", "10m"},
			exitOK,
			`POST /v1/triggers/k:snooze Content-Type=application/json {"for":"10m"}`, "",
		},
		{"missing", []string{"cancel", "k", "missing"}, exitNotFound, "", "missing: not_found: no such trigger"},
		{
			"write and go",
			[]string{"cancel", "slow", "--decision-timeout", "0"},
			exitOK,
			"DELETE /v1/triggers/slow Prefer=respond-async", "command.accepted",
		},
		{"late", []string{"cancel", "late"}, exitConflict, "", "already_fired"},
		{"stale", []string{"cancel", "stale"}, exitConflict, "", "revision is 9"},
		{"twice", []string{"schedule", "twice", "--in", "1s"}, exitConflict, "", "idempotency_conflict"},
		{"to be decided", []string{"cancel", "slow"}, exitOK, "", "is one running?"},
		{
			"wait for the firing",
			[]string{"schedule", "k", "--in", "1s", "--wait", "-o", "ndjson"},
			exitOK,
			"GET /v1/triggers/k/events?follow=1", `"occurrence":"the one"`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, "", append(row.args, "--url", f.URL)...).want(t, row.code, row.want)
			if row.asked != "" && !f.wasAsked(row.asked) {
				t.Errorf("asked\n%s\nwant\n%s", f.last(), row.asked)
			}
		})
	}
}

// A register that the API has accepted stands, also where nobody can read it just then.
func TestRegisterWithoutItsState(t *testing.T) {
	var put atomic.Bool
	answer := `{"trigger_id":"k","revision":1,"fire_at":"2030-11-20T14:00:00.000Z"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == aliveAt:
		case r.Method == http.MethodPut:
			put.Store(true)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, answer)
		case put.Load():
			problemJSON(w, 503, "unavailable", "the partition moves")
		default:
			problemJSON(w, 404, "not_found", "no such trigger")
		}
	}))
	defer s.Close()
	cli(t, nil, "", "schedule", "k", "--in", "7m", "--url", s.URL).want(t, exitOK, "revision  1")
	put.Store(false)
	cli(t, nil, "- id: k\n  delay: 7m\n", "apply", "-f", "-", "--url", s.URL).want(t, exitOK, "created  1")
	answer = "<html>" // not a decision: some other server
	cli(t, nil, "", "schedule", "k", "--in", "7m", "--url", s.URL).want(t, exitFailed, "the partition moves")
}

func TestWhoIsAsked(t *testing.T) {
	f := newFakeAPI(t)
	address := nobody(t)
	for _, row := range []struct {
		name string
		env  []string
		args []string
		api  bool
	}{
		{"both by flag: Kafka", nil, []string{"--brokers", address, "--url", f.URL}, false},
		{
			"the API by flag, brokers by environment",
			[]string{"WATERCLOCK_BROKERS=" + address},
			[]string{"--url", f.URL},
			true,
		},
		{
			"brokers by flag, the API by environment",
			[]string{"WATERCLOCK_URL=" + f.URL},
			[]string{"--brokers", address},
			false,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := cli(t, row.env, "", append(row.args, "cancel", "k")...)
			if api := r.code == exitOK; api != row.api {
				t.Errorf("asked the API: %v, want %v\n%s", api, row.api, r.err)
			}
		})
	}
}
