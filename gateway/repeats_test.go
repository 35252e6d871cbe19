package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t, nil)
	first := w.must(http.StatusCreated, "POST", "/v1/triggers", at(""), "Idempotency-Key", "k1")
	second := w.must(http.StatusOK, "POST", "/v1/triggers", at(""), "Idempotency-Key", "k1")
	third := w.must(http.StatusOK, "POST", "/v1/triggers", at(`,"idempotency_key":"k1"`))
	if first.body != second.body || first.body != third.body {
		t.Errorf("answers differ: %s %s %s", first.body, second.body, third.body)
	}
	other := w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers", at(`,"payload":2`), "Idempotency-Key", "k1")
	if other.get(t, "code") != "idempotency_conflict" || other.get(t, "field") != "idempotency_key" {
		t.Errorf("other content: %s", other.body)
	}
	if id := w.must(http.StatusCreated, "POST", "/v1/triggers", at(""), "Idempotency-Key", "k2").get(t,
		"trigger_id"); id == first.get(t, "trigger_id") {
		t.Errorf("another key means the same trigger %s", id)
	}
	w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers", at(`,"idempotency_key":"k1"`), "Idempotency-Key",
		"k2")
}

// A repeat by its key is answered with the trigger as it is now: with what
// became of it, where that is nothing that fires.
func TestRepeatOfWhatHasChanged(t *testing.T) {
	w := newWorld(t, nil)
	repeat := func() answer {
		return w.must(http.StatusOK, "PUT", "/v1/triggers/r", at(""), "Idempotency-Key", "k")
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/r", at(""), "Idempotency-Key", "k")
	w.must(http.StatusOK, "PATCH", "/v1/triggers/r", `{"fire_at":"2060-01-01T00:00:00Z"}`)
	if a := repeat(); a.body != `{"trigger_id":"r","fire_at":"2060-01-01T00:00:00.000Z","revision":2}`+"\n" {
		t.Errorf("after a patch %s", a.body)
	}
	w.must(http.StatusOK, "DELETE", "/v1/triggers/r", "")
	if a := repeat(); a.body != `{"trigger_id":"r","revision":3,"state":"CANCELLED"}`+"\n" {
		t.Errorf("after a cancel %s", a.body)
	}
	if a := w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		at(`,"id":"r","idempotency_key":"k"`)); !strings.Contains(a.body, `"state":"CANCELLED"`) {
		t.Errorf("in a batch %s", a.body)
	}
	// The key is the trigger's, where an id is given.
	w.must(http.StatusCreated, "PUT", "/v1/triggers/other", at(`,"payload":1`), "Idempotency-Key", "k")
}

func TestConcurrentRepeats(t *testing.T) {
	w := newWorld(t, nil)
	answers := make(chan answer, 16)
	for range cap(answers) {
		go func() {
			answers <- w.call("POST", "/v1/triggers", at(""), "Idempotency-Key", "same")
		}()
	}
	first, created := <-answers, 0
	for i := range cap(answers) {
		a := first
		if i > 0 {
			a = <-answers
		}
		if a.body != first.body {
			t.Errorf("answers differ: %s %s", a.body, first.body)
		}
		if a.status == http.StatusCreated {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d answers say 201, want 1", created)
	}
}
