package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// canary is in all that is to be forgotten, and in nothing else.
const canary = "canary4711"

// TestEraseUser erases a user of dev, which is killed while it does so. Nothing that one can ask
// for tells of the user afterwards, and others' triggers live on.
func TestEraseUser(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, "no such subscriber: ", canary)
	}))
	t.Cleanup(gone.Close)
	dir := filepath.Join(t.TempDir(), "outbox")
	w := newDevWorld(t, "--outbox", dir)
	user := "ada-" + canary
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/"+user,
		`{"addresses":{"email":"`+canary+`@example.com"}}`), 200)
	content := `"user_id":"` + user + `","tags":{"type":"` + canary + `"},"payload":{"title":"` + canary +
		`","body":"b","template_data":{"name":"` + canary + `"}}`
	ids := []string{"mail", "hook", "pending", "series", "paused", "cancelled"}
	register := func(id, rest string) {
		t.Helper()
		wants(t, "register "+id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{`+rest+`,`+content+`}`), 201)
	}
	register("mail", `"delay":"0s","channel":"email"`)
	register("hook", `"delay":"0s","callback":{"url":"`+gone.URL+`/`+canary+`"}`)
	register("pending", `"delay":"9h"`)
	register("series", `"recurrence":"every:1h"`)
	register("paused", `"recurrence":"every:1h"`)
	wants(t, "pause", w.call(t, http.MethodPost, "/v1/triggers/paused:pause", `{"note":"`+canary+`"}`), 200)
	register("cancelled", `"delay":"9h"`)
	wants(t, "cancel", w.call(t, http.MethodDelete, "/v1/triggers/cancelled", ""), 200)
	for i := range 200 {
		ids = append(ids, fmt.Sprint("more", i))
	}
	var batch strings.Builder
	for _, id := range ids[6:] {
		fmt.Fprintf(&batch, `{"id":%q,"delay":"9h",%s}`+"\n", id, content)
	}
	if a := w.call(t, http.MethodPost, "/v1/triggers:batch", batch.String()); a.status != 200 {
		t.Fatalf("batch: %v", a)
	}
	wants(t, "bob's", w.call(t, http.MethodPut, "/v1/triggers/bobs", `{"delay":"9h","user_id":"bob"}`), 201)
	await(t, "a mail, and the history of it", func() bool {
		a := w.call(t, http.MethodGet, "/v1/users/"+user+"/notifications?content=1", "")
		return len(outbox(t, dir)) > 0 && len(list(a, "items")) == 2 && strings.Contains(a.text, `"body":"b"`)
	})
	await(t, "a dead letter", func() bool {
		return strings.Contains(w.call(t, http.MethodGet, "/v1/dead-letters", "").text, "hook")
	})
	await(t, "the events of all", func() bool {
		return strings.Contains(w.call(t, http.MethodGet, "/v1/triggers/more199/events", "").text, canary)
	})

	erasure := "/v1/users/" + user + "/erasure"
	wants(t, "DELETE", w.call(t, http.MethodDelete, "/v1/users/"+user, ""), 202)
	for range 3 { // at once, and wherever it is then
		w.node.kill()
		w.node.launch()
		w.node.ready(2 * time.Minute)
		if a := w.call(t, http.MethodGet, erasure, ""); a.body["state"] == "done" {
			break
		}
	}
	wants(t, "a new life", w.call(t, http.MethodPut, "/v1/triggers/anew", `{"delay":"9h","user_id":"`+user+`"}`), 201)
	await(t, "the end of the erasure", func() bool {
		return w.call(t, http.MethodGet, erasure, "").body["state"] == "done"
	})
	for _, id := range ids {
		if a := w.call(t, http.MethodGet, "/v1/triggers/"+id, ""); a.status != 404 {
			t.Errorf("%s: %v", id, a)
		}
		a := w.call(t, http.MethodGet, "/v1/triggers/"+id+"/events?limit=1000", "")
		if a.status != 200 || strings.Contains(a.text, canary) || !strings.Contains(a.text, "trigger.erased") ||
			!strings.Contains(a.text, "trigger.registered") {
			t.Errorf("the history of %s: %v", id, a)
		}
	}
	for _, path := range []string{
		"/v1/users/" + user + "/notifications?content=1", "/v1/dead-letters?status=all", "/v1/preferences/" + user,
		"/v1/triggers?tag=type:" + url.QueryEscape(canary), "/v1/triggers?state=CANCELLED",
	} {
		if a := w.call(t, http.MethodGet, path, ""); a.status != 200 || strings.Contains(a.text, canary) {
			t.Errorf("%s: %v", path, a)
		}
	}
	for _, id := range []string{"bobs", "anew"} {
		wants(t, id, w.call(t, http.MethodGet, "/v1/triggers/"+id, ""), 200, "state=PENDING")
	}
}
