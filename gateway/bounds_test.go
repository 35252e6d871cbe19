package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/auth"
)

// goodWrites are a call of each route that writes a command, to be decided at once.
var goodWrites = map[string]string{
	"POST /v1/triggers": at(""), "PUT /v1/triggers/{id}": at(`,"payload":1`),
	"PATCH /v1/triggers/{id}": `{"payload":2}`, "DELETE /v1/triggers/{id}": "",
	"POST /v1/triggers:batch":       `{"id":"x","op":"pause"}`,
	"POST /v1/triggers/{id}:snooze": `{"for":"1m"}`, "POST /v1/triggers/{id}:skip": "",
	"POST /v1/triggers/{id}:pause": "", "POST /v1/triggers/{id}:resume": "",
	"POST /v1/triggers/{id}:run": "", "POST /v1/triggers/{id}:rezone": `{"timezone":"UTC"}`,
	"POST /v1/triggers/{id}:ack": "", "POST /v1/triggers/{id}:erase": "",
	"POST /api/reminders": at(`,"title":"a"`), "PATCH /api/reminders/{id}": `{"title":"a"}`,
	"DELETE /api/reminders/{id}": "", "POST /api/reminders/{id}/snooze": `{"minutes":1}`,
}

// everyWrite makes one good call of every route that writes a command.
func (w *world) everyWrite(t *testing.T, check func(name string, a answer), header ...string) {
	t.Helper()
	for _, r := range newRouteTable(&parts{}).all() {
		if r.right != auth.Write && r.right != auth.Act ||
			strings.HasPrefix(r.pattern, "/v1/calendars/") || // those write settings,
			strings.HasPrefix(r.pattern, "/v1/preferences/") || // these two write to a store of their own,
			strings.HasPrefix(r.pattern, "/v1/users/") ||
			r.pattern == "/v1/dead-letters:redrive" { // and this answers how far it is (letters_redrive_test.go)
			continue
		}
		name := r.method + " " + r.pattern
		body, known := goodWrites[name]
		if !known {
			t.Errorf("%s: nobody has said how to write by it", name)
			continue
		}
		check(name, w.call(r.method, strings.ReplaceAll(r.pattern, "{id}", "x"), body, header...))
	}
}

// While the owner decides nothing, no write says that it did.
func TestNoWriteIsDecidedByNobody(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnswerWithin = 30 * time.Millisecond })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", `{"recurrence":"FREQ=DAILY","timezone":"UTC"}`)
	w.engine.freeze()
	w.everyWrite(t, func(name string, a answer) {
		if batch := strings.HasSuffix(name, ":batch"); !batch && a.status != http.StatusAccepted || batch &&
			!strings.Contains(a.body, `"status":202`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if got := a.header.Get("Preference-Applied"); got != "" {
			t.Errorf("%s: applied %q, which nobody asked for", name, got)
		}
	})
	before := *w.state(idKey("x"))
	w.engine.thaw()
	eventually(t, "the decision about what was answered 202", func() bool {
		return w.state(idKey("x")).Seq >= before.Seq+5
	})
}

// RFC 7240: a preference that was applied is named.
func TestEveryWriteAppliesThePreference(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", `{"recurrence":"FREQ=DAILY","timezone":"UTC"}`)
	w.engine.freeze()
	w.everyWrite(t, func(name string, a answer) {
		if batch := strings.HasSuffix(name, ":batch"); !batch && a.status != http.StatusAccepted ||
			a.header.Get("Preference-Applied") != "respond-async" {
			t.Errorf("%s: %d, applied %q", name, a.status, a.header.Get("Preference-Applied"))
		}
	}, "Prefer", "respond-async")
}

// With Kafka away every write says so, and when to come back.
func TestEveryWriteWithKafkaAway(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ProduceWithin = 50 * time.Millisecond })
	eventually(t, "Kafka has acknowledged one in 50 ms, on a busy machine too", func() bool {
		return w.call("PUT", "/v1/triggers/x", `{"recurrence":"FREQ=DAILY","timezone":"UTC"}`).status < http.StatusBadRequest
	})
	w.cluster.Close()
	w.everyWrite(t, func(name string, a answer) {
		if strings.HasSuffix(name, ":batch") {
			if !strings.Contains(a.body, `"status":503`) || !strings.Contains(a.body, `"retry_after":`) {
				t.Errorf("%s: %d %s", name, a.status, a.body)
			}
			return
		}
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
			a.get(t, "trigger_id") == "" {
			t.Errorf("%s: %d %s, Retry-After %q", name, a.status, a.body, a.header.Get("Retry-After"))
		}
	})
}

// Brokers that refuse a producer id once do not keep every later write away.
func TestWritesGoOnAfterARefusedProducerID(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true})
	const register = `{"delay":"1h"}`
	w.must(http.StatusServiceUnavailable, "PUT", "/v1/triggers/x", register)
	eventuallyNil(t, "a write", func() error {
		if a := w.call("PUT", "/v1/triggers/x", register); a.status >= 300 {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
}

// listening serves h with the bounds of every listener, shortened.
func listening(t *testing.T, h http.Handler, shorten func(*http.Server)) string {
	t.Helper()
	srv := NewHTTPServer(h, slog.New(slog.DiscardHandler))
	shorten(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// Who sends a body drop by drop is answered 400 or cut off, and nothing of
// what came is decided; who never reads is cut off too.
func TestSlowCallers(t *testing.T) {
	w := newWorld(t, nil)
	closed := make(chan struct{}, 8)
	addr := listening(t, w.server.Handler(), func(s *http.Server) {
		s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond, 200*time.Millisecond
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	slow := dial()
	fmt.Fprint(slow, "PUT /v1/triggers/drop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400\r\n\r\n{\"delay\":")
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil) //nolint:bodyclose // the connection is closed
	if err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a slow body: %s", resp.Status)
	}
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
	if w.state(idKey("drop")) != nil {
		t.Error("half a body was decided")
	}
	<-closed
	deaf := dial()
	for range 2000 { // answers of 60 KB fill every buffer on the way
		if _, err := fmt.Fprint(deaf, "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			break
		}
	}
	select {
	case <-closed:
	case <-time.After(15 * time.Second):
		t.Error("who does not read is not cut off")
	}
}

// Fields, depth and lines at their bounds, one before and one behind.
func TestJSONAtItsBounds(t *testing.T) {
	w := newWorld(t, nil)
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%s"f%d":1`, map[bool]string{true: "{", false: ","}[i == 0], i)
		}
		return b.String() + "}"
	}
	if a := w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers", many(maxFields)); a.get(t,
		"code") != "unknown_field" {
		t.Errorf("%d fields: %s", maxFields, a.body)
	}
	if a := w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers", many(maxFields+1)); a.get(t,
		"code") != "invalid" {
		t.Errorf("%d fields: %s", maxFields+1, a.body)
	}
	limit := int(w.server.writes.bodies.maxBody())
	for _, c := range []struct {
		size int
		want string
	}{{limit, `"status":201`}, {limit + 1, `"code":"too_large"`}} {
		line := `{"id":"line","delay":"1000d"}`
		line += strings.Repeat(" ", c.size-len(line)-1) + "\n"
		if a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", line); !strings.Contains(a.body, c.want) {
			t.Errorf("a line of %d bytes: %s", c.size, a.body)
		}
		w.engine.set(func() { delete(w.engine.states, idKey("line")) })
	}
	bomb := strings.Repeat(`{"payload":`, 20_000)
	began := time.Now()
	w.must(http.StatusBadRequest, "POST", "/v1/triggers", bomb)
	w.must(http.StatusBadRequest, "PATCH", "/v1/triggers/x", bomb)
	w.must(http.StatusBadRequest, "POST", "/v1/preview", bomb)
	t.Logf("bombs refused within %s", time.Since(began))
}
