package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A batch asks each owner about many lines at once, and an owner that is
// silent leaves only its own lines open.
func TestBatchAsksOwnersOnce(t *testing.T) {
	w, urls, _ := newCluster(t)
	var lines strings.Builder
	const n = 2000
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"b%04d","delay":"1000d"}`+"\n", i)
	}
	w.callAt(urls[2], "GET", "/v1/triggers/b", "") // owners are known
	before := internalCalls.Load()
	a := w.callAt(urls[2], "POST", "/v1/triggers:batch", lines.String())
	if got := strings.Count(a.body, `"status":201`); a.status != http.StatusOK || got != n {
		t.Errorf("%d of %d lines: %d %.500s", got, n, a.status, a.body)
	}
	for i, line := range strings.Split(strings.TrimSpace(a.body), "\n") {
		if !strings.Contains(line, fmt.Sprintf(`"id":"b%04d"`, i)) {
			t.Fatalf("line %d is answered by %s", i, line)
		}
	}
	if calls := internalCalls.Load() - before; calls > n/50 {
		t.Errorf("%d calls for %d lines", calls, n)
	}
	w.engine.freeze()
	defer w.engine.thaw()
	began := time.Now()
	a = w.callAt(urls[2], "POST", "/v1/triggers:batch",
		`{"id":"f1","delay":"1h"}`+"\n"+`{"id":"f2","dealy":"1h"}`+"\n"+`{"id":"f3","delay":"1h"}`)
	if strings.Count(a.body, `"status":202`) != 2 || strings.Count(a.body, `"code":"unknown_field"`) != 1 {
		t.Errorf("owner frozen: %d %s", a.status, a.body)
	}
	t.Logf("202 after %s", time.Since(began))
}

// What is forgotten is answered as decided only where the trigger proves it: it
// does not where it had the content of a refused command before.
func TestForgottenRefusals(t *testing.T) {
	w := newWorld(t, nil)
	const tagged, earlier = `,"tags":{"a":"1"}`, "2060-01-01T00:00:00Z"
	w.must(http.StatusCreated, "PUT", "/v1/triggers/g", at(tagged))
	w.must(http.StatusOK, "PATCH", "/v1/triggers/g", `{"fire_at":"`+earlier+`"}`)
	w.engine.forget()
	w.must(http.StatusAccepted, "PUT", "/v1/triggers/g", at(tagged), "If-Match", `"7"`, "Idempotency-Key", "new")
	w.must(http.StatusAccepted, "PATCH", "/v1/triggers/g", at(tagged+`,"if_revision":1`))
	if st := w.state("g"); st.Revision != 2 || st.Nominal().String() != "2060-01-01T00:00:00.000Z" {
		t.Errorf("not refused: %+v", st)
	}
	w.must(http.StatusOK, "PUT", "/v1/triggers/h", at(""), "Idempotency-Key", "k")
	w.must(http.StatusOK, "PUT", "/v1/triggers/h", at(""))
}

// A cancel that came too late leaves a cancelled trigger, too.
func TestForgottenCancelOfWhatHasFired(t *testing.T) {
	w := newWorld(t, nil)
	for _, id := range []string{"known", "forgotten"} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(`,"channel":"sms"`))
		w.engine.fire(idKey(id))
	}
	w.must(http.StatusConflict, "DELETE", "/v1/triggers/known", "")
	w.must(http.StatusConflict, "DELETE", "/v1/triggers/known", "") // it went out, whoever repeats the request
	w.engine.forget()
	w.must(http.StatusAccepted, "DELETE", "/v1/triggers/forgotten", "")
}

// A line of a batch is answered as the same request would be.
func TestLinesThatDoNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/fired", at(`,"channel":"sms"`))
	w.engine.fire(idKey("fired"))
	a := w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		`{"id":"none","op":"ack"}`+"\n"+`{"id":"fired","op":"cancel"}`)
	lines := strings.Split(strings.TrimSpace(a.body), "\n")
	for i, want := range []string{`"status":404`, `"status":409`} {
		if len(lines) != 2 || !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %s: %s", i+1, want, a.body)
		}
	}
}

// A run on demand is no firing of the plan: a cancel behind it came in time.
func TestForgottenCancelAfterARun(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/ran", at(""))
	w.must(http.StatusOK, "POST", "/v1/triggers/ran:run", "")
	w.engine.fire(idKey("ran"))
	if st := w.state("ran"); len(st.Done) != 1 || len(st.Live) != 0 {
		t.Fatalf("it did not run: %+v", st)
	}
	w.must(http.StatusOK, "DELETE", "/v1/triggers/ran", "")
	w.engine.forget()
	w.must(http.StatusOK, "DELETE", "/v1/triggers/ran", "")
}

// What fired before a replacement or a snooze says nothing of a cancel of what comes after it: that one was in time,
// also for who repeats the request.
func TestRepeatedCancelAfterAnEarlierFiring(t *testing.T) {
	for name, goesOn := range map[string]func(w *world){
		"replaced": func(w *world) {
			w.must(http.StatusOK, "PUT", "/v1/triggers/k", `{"delay":"7m","payload":2,"user_id":"ada"}`)
		},
		"snoozed": func(w *world) { w.must(http.StatusOK, "POST", "/v1/triggers/k:snooze", `{"for":"1h"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/k", at(`,"user_id":"ada"`))
			w.engine.fire(idKey("k"))
			goesOn(w)
			w.must(http.StatusOK, "DELETE", "/v1/triggers/k", "")
			w.must(http.StatusOK, "DELETE", "/v1/triggers/k", "")
			w.engine.forget()
			w.must(http.StatusOK, "DELETE", "/v1/triggers/k", "")
		})
	}
}
