package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// Whatever a body is, it is an object that spells the same respelled, or a problem.
func FuzzParseFields(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"a":1}`, `{"a":{"b":[1,2]},"a":2}`, `[`, `{"a"`,
		`{"\u0061":"\ud83d\ude00"}`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 50),
		`{"delay":"7m","payload":null} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fs, err := parseFields(b)
		if err != nil {
			if p, ok := err.(*problem.Problem); !ok || p.Status/100 != 4 {
				t.Fatalf("error %v", err)
			}
			return
		}
		respelled, err := parseFields(fs.encode())
		if err != nil || len(respelled) != len(fs) {
			t.Fatalf("%q spelled again is %q: %v", b, fs.encode(), err)
		}
		for i := range fs {
			if fs[i].name != respelled[i].name || !bytes.Equal(fs[i].value, respelled[i].value) {
				t.Fatalf("field %d: %q %s, again %q %s", i, fs[i].name, fs[i].value, respelled[i].name,
					respelled[i].value)
			}
		}
	})
}

// No cursor but our own opens, and none makes us panic.
func FuzzCursor(f *testing.F) {
	s := newCursorSeal(func() [][]byte { return [][]byte{[]byte(secret)} })
	q := &peer.Query{Tenant: "acme", User: "u", Tags: []trigger.Tag{{Key: "a", Value: "b"}}}
	ours := s.seal(q, peer.UserCursor{Due: 77, Key: "acme/x"})
	for _, seed := range []string{ours, "", "x", ours[:10], ours + "A", strings.Repeat("A", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := s.open(q, text)
		if err == nil && at != (peer.UserCursor{Due: 77, Key: "acme/x"}) {
			t.Fatalf("%q opens as %+v", text, at)
		}
		other := *q
		other.Tenant = "blue"
		if _, err := s.open(&other, text); err == nil {
			t.Fatalf("%q opens for another tenant", text)
		}
	})
}

func FuzzEventCursor(f *testing.F) {
	for _, seed := range []string{
		"", "x", EventCursor{12, 3}.String(), EventCursor{-1, 1 << 62}.String(),
		EventCursor{firstEventUS, 3}.String(),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseEventCursor(text)
		if err != nil || text == "" {
			return
		}
		if at.String() != text {
			t.Fatalf("%q: %+v, again %q", text, at, at)
		}
	})
}

// Any request gets an answer that is described, and never a fault of ours.
// There is no Kafka behind this server: nothing it takes may need one before
// it is checked.
func FuzzRequest(f *testing.F) {
	s, err := New(Options{Partitions: testPartitions, PeerSecret: []byte(secret), ProduceWithin: 1, ReadWithin: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Add("POST", "/v1/triggers", "", `{"delay":"1m"`)
	f.Add("GET", "/v1/triggers", "state=x&cursor=%zz", ``)
	f.Add("PATCH", "/v1/triggers/a%2Fb", "", `{"payload":{}}`)
	f.Add("POST", "/v1/triggers/x:snooze:", "", `[]`)
	f.Add("POST", "/v1/preview", "", `{"recurrence":"every:1h"}`)
	f.Add("POST", "/api/reminders", "", `{"title":"a","payload":3}`)
	f.Add("POST", "/v1/triggers:batch", "", "{}\nx\n")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") || strings.Contains(path, "metrics") {
			return
		}
		r.URL.RawQuery = query
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, r)
		if rec.Code == http.StatusInternalServerError {
			t.Fatalf("%s %s?%s %q: %s", method, path, query, body, rec.Body)
		}
		if rec.Header().Get("Content-Type") == "application/problem+json" && !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("not JSON: %s", rec.Body)
		}
	})
}
