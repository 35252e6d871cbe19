package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// listed are the ids of a list, over all pages.
func (w *world) listed(t *testing.T, query string, header ...string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		a := w.must(http.StatusOK, "GET", "/v1/triggers?limit=2&"+query+"&cursor="+cursor, "", header...)
		for _, part := range strings.Split(a.body, `{"trigger_id":"`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			ids = append(ids, id)
		}
		if cursor = a.get(t, "next_cursor"); cursor == "" {
			return ids
		}
	}
}

// A prefix finds the ids that begin so, the prefix itself too, whoever else has such ids, with
// a user and without.
func TestKeyPrefix(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	for _, id := range []string{"ab", "ab/1", "ab~", "abé", "aa", "a", "b", "AB", "acme"} {
		for _, key := range []string{keyA, keyB, keyD} {
			if key == keyD && strings.Contains(id, "/") {
				continue // in the default tenant it would be another's
			}
			w.must(http.StatusCreated, "PUT", "/v1/triggers/"+url.PathEscape(id), at(`,"user_id":"u"`), bearer(key)...)
		}
	}
	for _, c := range []struct {
		key, query string
		want       []string
	}{
		{keyA, "key_prefix=ab", []string{"ab", "ab/1", "ab~", "abé"}},
		{keyD, "key_prefix=ab", []string{"ab", "ab~", "abé"}},
		{keyD, "key_prefix=acme", []string{"acme"}}, // not acme/…, which is another tenant's
		{keyB, "key_prefix=ab%2F", []string{"ab/1"}},
		{keyB, "key_prefix=ab&user_id=u", []string{"ab", "ab/1", "ab~", "abé"}},
		{keyB, "key_prefix=zz", nil},
	} {
		if got := w.listed(t, c.query, bearer(c.key)...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
	w.must(http.StatusBadRequest, "GET", "/v1/triggers?key_prefix=", "", bearer(keyA)...)
	first := w.must(http.StatusOK, "GET", "/v1/triggers?key_prefix=ab&limit=1", "", bearer(keyA)...)
	cursor := first.get(t, "next_cursor")
	w.must(http.StatusBadRequest, "GET", "/v1/triggers?key_prefix=a&limit=1&cursor="+cursor, "", bearer(keyA)...)
}

// With fresh=false a list takes no read barrier, and a partition that does not answer is left
// out and named. Without it such a list is a 503.
func TestStaleLists(t *testing.T) {
	now := time.Date(2026, 11, 25, 20, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	var all, others []string
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(""))
		if all = append(all, id); topics.Partition([]byte(idKey(id)), testPartitions) != 1 {
			others = append(others, id)
		}
	}
	if len(others) == len(all) || len(others) == 0 {
		t.Fatal("all are on one side")
	}
	a := w.must(http.StatusOK, "GET", "/v1/triggers", "")
	if a.get(t, "as_of") != "2026-11-25T20:00:00.000Z" || a.get(t, "looked_at") != "8" ||
		!strings.Contains(a.body, `"silent_partitions":[]`) || w.engine.stale.Load() != 0 {
		t.Errorf("a fresh list: %s", a.body)
	}
	if got := w.listed(t, "fresh=false"); !slices.Equal(got, all) || w.engine.stale.Load() == 0 {
		t.Errorf("a stale list: %q, %d stale reads", got, w.engine.stale.Load())
	}
	w.engine.set(func() { w.engine.foreign[1] = true })
	a = w.must(http.StatusOK, "GET", "/v1/triggers?fresh=false", "")
	if !strings.Contains(a.body, `"silent_partitions":[1]`) || strings.Count(a.body, "trigger_id") != len(others) {
		t.Errorf("one partition is silent: %s", a.body)
	}
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers", "")
	w.engine.set(func() {
		for p := range int32(testPartitions) {
			w.engine.foreign[p] = true
		}
	})
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers?fresh=false", "")
}

// With fresh=false a search takes no read barrier either. It names a partition that does not answer, and has of its
// triggers what the history knows.
func TestStaleSearch(t *testing.T) {
	id := "a"
	for topics.Partition([]byte(idKey(id)), testPartitions) != 1 {
		id += "a"
	}
	log := &keptEvents{all: []topics.Event{event(id, 10, 1, "trigger.registered")}}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(`,"user_id":"ada"`))
	fresh := w.must(http.StatusOK, "GET", "/v1/search?q="+id, "")
	if w.engine.stale.Load() != 0 || !strings.Contains(fresh.body, `"silent_partitions":[]`) {
		t.Errorf("a fresh search: %s, %d stale reads", fresh.body, w.engine.stale.Load())
	}
	if a := w.must(http.StatusOK, "GET", "/v1/search?fresh=false&q="+id, ""); a.body != fresh.body ||
		w.engine.stale.Load() == 0 {
		t.Errorf("a stale search: %s, want %s; %d stale reads", a.body, fresh.body, w.engine.stale.Load())
	}
	w.engine.set(func() { w.engine.foreign[1] = true })
	w.must(http.StatusServiceUnavailable, "GET", "/v1/search?q="+id, "")
	for _, q := range []string{id, id + "@2026-11-20T14:00:00.000Z#0"} {
		a := w.must(http.StatusOK, "GET", "/v1/search?fresh=false&q="+url.QueryEscape(q), "")
		if !strings.Contains(a.body, `"silent_partitions":[1]`) || !strings.Contains(a.body, `"trigger_id":"`+id+`"`) ||
			strings.Contains(a.body, `"state"`) {
			t.Errorf("its partition is silent: %s finds %s", q, a.body)
		}
	}
	a := w.must(http.StatusOK, "GET", "/v1/search?fresh=false&q=ada", "")
	if a.body != `{"items":[],"silent_partitions":[1]}`+"\n" {
		t.Errorf("a user whose triggers are all on the silent partition: %s", a.body)
	}
}

// With fresh=false an explanation takes no read barrier, and waits for no event that the history does not have yet.
func TestStaleExplanation(t *testing.T) {
	log := &keptEvents{}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", at(""))
	fresh := w.must(http.StatusOK, "GET", "/v1/triggers/a/explain", "")
	if read := log.reads.Load(); w.engine.stale.Load() != 0 || read < 2 {
		t.Errorf("a fresh one: %d stale reads, the history was read %d times", w.engine.stale.Load(), read)
	}
	log.reads.Store(0)
	a := w.must(http.StatusOK, "GET", "/v1/triggers/a/explain?fresh=false", "")
	if read := log.reads.Load(); a.body != fresh.body || w.engine.stale.Load() == 0 || read != 1 {
		t.Errorf("a stale one: %s, want %s; %d stale reads, the history was read %d times", a.body, fresh.body,
			w.engine.stale.Load(), read)
	}
}
