package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// slowPast is a history whose list comes when it is let go.
type slowPast struct{ goOn chan struct{} }

func (s *slowPast) TriggersOf(ctx context.Context, _, _ string, _ func(trigger.Key) error) error {
	select {
	case <-s.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A claim is prolonged while the history is read, however long that takes.
func TestEraseUserSlowHistory(t *testing.T) {
	store, history := &mortal{Store: testStore(t), left: -1}, &slowPast{make(chan struct{})}
	w := newWorld(t, func(o *Options) { o.Preferences, o.UserTriggers = store, history })
	w.server.erasures.lease = 30 * time.Millisecond
	runErasures(t, w.server)
	w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "")
	eventually(t, "a claim that is prolonged three times", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.renewed >= 3
	})
	close(history.goOn)
	w.untilErased("ada")
}

// pastOf is a history that knows triggers by user, until it hears of their erase.
type pastOf struct {
	mu   sync.Mutex
	keys map[preferences.User][]trigger.Key
	away bool
}

func (k *pastOf) TriggersOf(_ context.Context, tenant, user string, visit func(trigger.Key) error) error {
	k.mu.Lock()
	keys, away := slices.Clone(k.keys[preferences.User{Tenant: tenant, ID: user}]), k.away
	k.mu.Unlock()
	if away {
		return errors.New("the history is away")
	}
	for _, key := range keys {
		if err := errors.Join(visit(key), visit(key)); err != nil {
			return err
		}
	}
	return nil
}

func (k *pastOf) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func (k *pastOf) seen(r *kgo.Record, facts []trigger.Fact) {
	if !slices.ContainsFunc(facts, func(f trigger.Fact) bool { return f.Type == trigger.ErasedFact }) {
		return
	}
	k.set(func() {
		for u, keys := range k.keys {
			k.keys[u] = slices.DeleteFunc(keys, func(key trigger.Key) bool { return key == trigger.Key(r.Key) })
		}
	})
}

// eraseWorld has a store, and a history that may know something.
func eraseWorld(t *testing.T, change func(*Options)) (*world, *pastOf, preferences.Store) {
	t.Helper()
	store, history := testStore(t), &pastOf{keys: map[preferences.User][]trigger.Key{}}
	w := newWorld(t, func(o *Options) {
		o.Preferences, o.UserTriggers = store, history
		if change != nil {
			change(o)
		}
	})
	w.engine.set(func() { w.engine.seen = history.seen })
	return w, history, store
}

// runErasures runs the driver of a server until stop is called, or the test ends.
func runErasures(t *testing.T, s *Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.RunErasures(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// untilErased waits until the erasure of a user is done.
func (w *world) untilErased(user string, header ...string) (triggers string) {
	w.t.Helper()
	eventuallyNil(w.t, "the erasure", func() error {
		a := w.must(http.StatusOK, "GET", "/v1/users/"+user+"/erasure", "", header...)
		if a.get(w.t, "state") != "done" {
			return errors.New(a.body)
		}
		triggers = a.get(w.t, "triggers")
		return nil
	})
	return triggers
}

func (w *world) isErased(key trigger.Key) bool {
	st := w.state(key)
	return st != nil && st.Status == trigger.Erased && st.Spec.UserID == "" && len(st.Spec.Payload) == 0
}

// Everything of a user goes, in whatever state it is; another user's, and another tenant's of
// the same id, stays.
func TestEraseUser(t *testing.T) {
	w, history, store := eraseWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	ours, theirs := as(keyA), as(keyB)
	register := func(id, user string, who []string) {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(`,"user_id":"`+user+`","payload":"canary"`), who...)
	}
	mine := []string{"pending", "paused", "fired", "cancelled", "series"}
	for _, id := range mine[:4] {
		register(id, "ada", ours)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/series",
		`{"recurrence":"FREQ=DAILY","start":"2060-07-01T09:00","timezone":"UTC","user_id":"ada"}`, ours...)
	w.must(http.StatusOK, "POST", "/v1/triggers/paused:pause", "", ours...)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/cancelled", "", ours...)
	w.engine.fire("acme/fired")
	register("bobs", "bob", ours)
	register("theirs", "ada", theirs)
	u := preferences.User{Tenant: "acme", ID: "ada"}
	history.set(func() {
		history.keys[u] = []trigger.Key{"acme/forgotten", "acme/series", "acme/bobs"}
		history.keys[preferences.User{Tenant: "default", ID: "ada"}] = []trigger.Key{"others"}
	})
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"addresses":{"email":"canary@example.com"}}`, ours...)
	before := w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"locale":"de"}`, theirs...).body

	w.must(http.StatusNotFound, "GET", "/v1/users/ada/erasure", "", ours...)
	if a := w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "", ours...); a.get(t, "state") != "pending" ||
		a.get(t, "triggers") != "0" {
		t.Errorf("DELETE answers %s", a.body)
	}
	if got := w.must(http.StatusOK, "GET", "/v1/preferences/ada", "", ours...).body; got != noPreferences {
		t.Errorf("right after it the preferences are %s", got)
	}
	w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "", ours...)
	register("new", "ada", ours) // a life after it
	runErasures(t, w.server)
	if n := w.untilErased("ada", ours...); n != "6" {
		t.Errorf("%s triggers were erased, want 6", n)
	}
	for _, id := range append(mine, "forgotten") {
		if key := trigger.Key("acme/" + id); !w.isErased(key) {
			t.Errorf("%s is %+v", id, w.state(key))
		}
	}
	for _, key := range []trigger.Key{"acme/bobs", "acme/new", "blue/theirs"} {
		if st := w.state(key); st == nil || st.Status != trigger.Pending {
			t.Errorf("%s is %+v", key, st)
		}
	}
	if got := w.must(http.StatusOK, "GET", "/v1/preferences/ada", "", theirs...).body; got != before {
		t.Errorf("the other tenant's preferences are %s", got)
	}
	w.must(http.StatusNotFound, "GET", "/v1/users/ada/erasure", "", theirs...)
	if n, _, err := store.PendingErasures(t.Context()); n != 0 || err != nil {
		t.Errorf("%d erasures are left, %v", n, err)
	}
	// The next one takes what came since.
	w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "", ours...)
	if n := w.untilErased("ada", ours...); n != "1" || !w.isErased("acme/new") {
		t.Errorf("the second erased %s, and new is %+v", n, w.state("acme/new"))
	}
}

func TestEraseUserRefused(t *testing.T) {
	w, _, _ := eraseWorld(t, nil)
	for _, method := range []string{"DELETE /v1/users/%s", "GET /v1/users/%s/erasure"} {
		verb, path, _ := strings.Cut(method, " ")
		for _, user := range []string{"a%00", strings.Repeat("x", 256)} {
			a := w.must(http.StatusUnprocessableEntity, verb, fmt.Sprintf(path, user), "")
			if a.get(t, "field") != "user_id" {
				t.Errorf("%s: %s", method, a.body)
			}
		}
	}
	w.must(http.StatusNotFound, "GET", "/v1/users/nobody/erasure", "")
	none := newWorld(t, nil)
	none.must(http.StatusServiceUnavailable, "DELETE", "/v1/users/u", "")
	none.must(http.StatusServiceUnavailable, "GET", "/v1/users/u/erasure", "")
}

// A user of whom nothing is known is erased at once.
func TestEraseNobody(t *testing.T) {
	w, _, _ := eraseWorld(t, nil)
	runErasures(t, w.server)
	w.must(http.StatusAccepted, "DELETE", "/v1/users/nobody", "")
	if n := w.untilErased("nobody"); n != "0" {
		t.Errorf("%s triggers", n)
	}
}

// While the history does not answer, the erasure waits, and what the engine knows is erased.
func TestEraseUserHistoryAway(t *testing.T) {
	w, history, store := eraseWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"ada"`))
	history.set(func() { history.away = true })
	hurried := &mortal{Store: store, left: -1}
	first, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = hurried, history })
	runErasures(t, first)
	w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "")
	eventually(t, "the end of t", func() bool { return w.isErased("t") })
	if a := w.must(http.StatusOK, "GET", "/v1/users/ada/erasure", ""); a.get(t, "state") != "pending" {
		t.Errorf("the erasure is %s", a.body)
	}
	history.set(func() { history.away = false })
	w.untilErased("ada")
}

// Triggers that are registered while the erasure runs are either erased, if they were there
// before DELETE, or live on.
func TestEraseUserAgainstRegisters(t *testing.T) {
	w, history, store := eraseWorld(t, nil)
	second, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = store, history })
	runErasures(t, w.server)
	runErasures(t, second)
	const writers, each = 4, 25
	name := func(writer, i int) string { return fmt.Sprintf("w%d-%d", writer, i) }
	var mu sync.Mutex
	before, after := []string{}, []string{} // acknowledged before DELETE was sent, begun after its answer
	sent, answered := false, false
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for i := range each {
				mu.Lock()
				late := answered
				mu.Unlock()
				w.must(http.StatusCreated, "PUT", "/v1/triggers/"+name(writer, i), at(`,"user_id":"ada"`))
				mu.Lock()
				if late {
					after = append(after, name(writer, i))
				} else if !sent {
					before = append(before, name(writer, i))
				}
				if len(before) == each && !sent {
					sent = true
					all.Go(func() {
						w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "")
						mu.Lock()
						answered = true
						mu.Unlock()
					})
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.must(http.StatusCreated, "PUT", "/v1/triggers/last", at(`,"user_id":"ada"`))
	w.untilErased("ada")
	for _, id := range before {
		if !w.isErased(idKey(id)) {
			t.Errorf("%s was there before, and is %v", id, w.state(idKey(id)).Status)
		}
	}
	for _, id := range append(after, "last") {
		if st := w.state(idKey(id)); st == nil || st.Status != trigger.Pending {
			t.Errorf("%s is new, and is %+v", id, st)
		}
	}
}

// What is kept of a user's triggers is bounded, and has those of last.
func TestRecentKeys(t *testing.T) {
	var r recentKeys
	if _, ok := r.get("k0"); ok {
		t.Fatal("an empty one has a key")
	}
	const n = 5 * recentMost
	for i := range n {
		r.put(trigger.Key(fmt.Sprint("k", i)), int64(i))
		if kept := len(r.young) + len(r.old); kept > 2*recentMost {
			t.Fatalf("%d are kept", kept)
		}
	}
	for i := n - recentMost; i < n; i++ {
		if revision, ok := r.get(trigger.Key(fmt.Sprint("k", i))); !ok || revision != int64(i) {
			t.Fatalf("k%d: %d %v", i, revision, ok)
		}
	}
	r.put("k0", 7)
	if revision, ok := r.get("k0"); !ok || revision != 7 {
		t.Errorf("k0: %d %v", revision, ok)
	}
}
