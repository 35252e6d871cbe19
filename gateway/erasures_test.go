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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		store.mu.Lock()
		n := store.renewed
		store.mu.Unlock()
		if n >= 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the claim was prolonged %d times", n)
		}
	}
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
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		a := w.must(http.StatusOK, "GET", "/v1/users/"+user+"/erasure", "", header...)
		if a.get(w.t, "state") == "done" {
			return a.get(w.t, "triggers")
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the erasure is %s", a.body)
		}
	}
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

// shortLease is how long claims of a mortal store hold, whatever was asked for.
const shortLease = 300 * time.Millisecond

// mortal is a store of a process that can die: from then on no call of it arrives.
type mortal struct {
	preferences.Store
	mu   sync.Mutex
	dead bool
	left int // calls that still arrive; below 0: all

	renewed int // how often a claim was prolonged
}

func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		m.dead = true
	}
	if m.dead {
		return errors.New("the process is dead")
	}
	m.left--
	return nil
}

func (m *mortal) Claim(ctx context.Context, _ time.Duration) (preferences.Move, bool, error) {
	if err := m.alive(); err != nil {
		return preferences.Move{}, false, err
	}
	return m.Store.Claim(ctx, shortLease)
}

func (m *mortal) Renew(ctx context.Context, move preferences.Move, _ time.Duration) (bool, error) {
	if err := m.alive(); err != nil {
		return false, err
	}
	return m.Store.Renew(ctx, move, shortLease)
}

func (m *mortal) Done(ctx context.Context, move preferences.Move) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.Done(ctx, move)
}

func (m *mortal) ClaimErasure(
	ctx context.Context, turn preferences.Turn, _ time.Duration,
) (preferences.Erasure, bool, error) {
	if err := m.alive(); err != nil {
		return preferences.Erasure{}, false, err
	}
	return m.Store.ClaimErasure(ctx, turn, shortLease)
}

func (m *mortal) RenewErasure(ctx context.Context, e preferences.Erasure, _ time.Duration) (bool, error) {
	if err := m.alive(); err != nil {
		return false, err
	}
	m.mu.Lock()
	m.renewed++
	m.mu.Unlock()
	return m.Store.RenewErasure(ctx, e, shortLease)
}

func (m *mortal) FinishErasure(ctx context.Context, e preferences.Erasure) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.Store.FinishErasure(ctx, e)
}

// A gateway that dies half-way leaves the row, and another goes on.
func TestEraseUserAfterACrash(t *testing.T) {
	w, history, store := eraseWorld(t, nil)
	const n = 1200 // more than two pages
	var batch strings.Builder
	for i := range n {
		fmt.Fprintf(&batch, `{"id":"t%d","fire_at":"2060-07-01T09:00:00Z","user_id":"ada"}`+"\n", i)
	}
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", batch.String())
	dying := &mortal{Store: store, left: -1}
	erased, half := 0, make(chan struct{})
	w.engine.set(func() {
		w.engine.seen = func(r *kgo.Record, facts []trigger.Fact) {
			history.seen(r, facts)
			for _, f := range facts {
				if f.Type == trigger.ErasedFact {
					if erased++; erased == n/3 {
						close(half)
					}
				}
			}
		}
	})
	first, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = dying, history })
	stop := runErasures(t, first)
	w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "")
	<-half
	dying.die()
	stop()
	second, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = store, history })
	runErasures(t, second)
	w.untilErased("ada")
	for i := range n {
		if key := idKey(fmt.Sprint("t", i)); !w.isErased(key) {
			t.Fatalf("%s is %+v", key, w.state(key))
		}
	}
}

// The process dies before each call of the store in turn. Whoever comes next goes on.
func TestEraseUserDiesAtEveryStep(t *testing.T) {
	for step := range 5 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			w, history, store := eraseWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"ada"`))
			history.set(func() { history.keys[preferences.User{Tenant: "default", ID: "ada"}] = []trigger.Key{"old"} })
			dying := &mortal{Store: store, left: step}
			first, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = dying, history })
			w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "")
			stop := runErasures(t, first)
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				dying.mu.Lock()
				dead := dying.dead
				dying.mu.Unlock()
				if n, _, err := store.PendingErasures(t.Context()); dead || err != nil || n == 0 {
					break
				}
			}
			stop()
			second, _ := w.gateway(w.engine, func(o *Options) { o.Preferences, o.UserTriggers = store, history })
			runErasures(t, second)
			w.untilErased("ada")
			if !w.isErased("t") || !w.isErased("old") {
				t.Errorf("t is %+v, old is %+v", w.state("t"), w.state("old"))
			}
		})
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
	for deadline := time.Now().Add(time.Minute); !w.isErased("t"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("t is %+v", w.state("t"))
		}
	}
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

// sickPast is a history that never answers about some users, and fails for others.
type sickPast struct{ slow, broken map[string]bool }

func (s *sickPast) TriggersOf(ctx context.Context, _, user string, _ func(trigger.Key) error) error {
	switch {
	case s.slow[user]:
		<-ctx.Done()
		return ctx.Err()
	case s.broken[user]:
		return errors.New("the history is away")
	}
	return nil
}

// Erasures run side by side. Those that stand still or fail hold up no other, however many fail.
func TestEraseUsersSideBySide(t *testing.T) {
	store, history := testStore(t), &sickPast{map[string]bool{}, map[string]bool{}}
	w := newWorld(t, func(o *Options) { o.Preferences, o.UserTriggers = store, history })
	erase := func(user string) { w.must(http.StatusAccepted, "DELETE", "/v1/users/"+user, "") }
	for i := range outboxAtOnce - 1 {
		user := fmt.Sprint("slow", i)
		history.slow[user] = true
		erase(user)
	}
	for i := range 3 * outboxAtOnce {
		user := fmt.Sprint("broken", i)
		history.broken[user] = true
		erase(user)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"ada"`))
	erase("ada")
	runErasures(t, w.server)
	w.untilErased("ada")
	if !w.isErased("t") {
		t.Errorf("t is %+v", w.state("t"))
	}
	if n, _, err := store.PendingErasures(t.Context()); n != 4*outboxAtOnce-1 || err != nil {
		t.Errorf("%d erasures are pending, %v", n, err)
	}
}

// Erasures of one tenant that stand still leave room for those of another, however many wait.
func TestEraseUsersOfTenants(t *testing.T) {
	store, history := testStore(t), &sickPast{map[string]bool{}, map[string]bool{}}
	w := newWorld(t, func(o *Options) {
		o.Preferences, o.UserTriggers, o.Auth = store, history, testKeys(t)
	})
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	for i := range 3 * outboxAtOnce {
		user := fmt.Sprint("slow", i)
		history.slow[user] = true
		w.must(http.StatusAccepted, "DELETE", "/v1/users/"+user, "", bearer(keyA)...)
	}
	runErasures(t, w.server)
	for i := range 3 {
		user := fmt.Sprint("ada", i)
		w.must(http.StatusAccepted, "DELETE", "/v1/users/"+user, "", bearer(keyB)...)
		w.untilErased(user, bearer(keyB)...)
	}
	if full := w.server.erasures.share.Full(); !slices.Contains(full, "acme") { // those of blue may just be ending
		t.Errorf("%q have their share", full)
	}
}

// orderedPast is a history that notes about whom it is asked.
type orderedPast struct {
	mu    sync.Mutex
	users []string
}

func (o *orderedPast) TriggersOf(_ context.Context, _, user string, _ func(trigger.Key) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.users = append(o.users, user)
	return nil
}

// Tenants take turns, so the one user of a tenant does not wait behind the many of another.
func TestEraseTenantsTakeTurns(t *testing.T) {
	history := &orderedPast{}
	w := newWorld(t, func(o *Options) { o.Preferences, o.UserTriggers, o.Auth = testStore(t), history, testKeys(t) })
	for i := range 10 * outboxAtOnce {
		w.must(http.StatusAccepted, "DELETE", fmt.Sprint("/v1/users/many", i), "", "Authorization", "Bearer "+keyA)
	}
	w.must(http.StatusAccepted, "DELETE", "/v1/users/one", "", "Authorization", "Bearer "+keyB)
	runErasures(t, w.server)
	w.untilErased("one", "Authorization", "Bearer "+keyB)
	history.mu.Lock()
	defer history.mu.Unlock()
	if at := slices.Index(history.users, "one"); at < 0 || at > 2*outboxAtOnce {
		t.Errorf("the one user was number %d of %d", at, len(history.users))
	}
}

// The older an erasure that fails, the longer it waits, within bounds.
func TestRetryAfter(t *testing.T) {
	for _, c := range []struct{ age, want time.Duration }{
		{-time.Hour, erasureRetryLeast},
		{0, erasureRetryLeast},
		{30 * time.Second, 3 * time.Second},
		{time.Hour, erasureRetryMost},
	} {
		if got := retryAfter(c.age); got != c.want {
			t.Errorf("at an age of %v it is tried again after %v, want %v", c.age, got, c.want)
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

// userWork hears how much is to be done about users.
type userWork struct {
	NoListener

	mu              sync.Mutex
	erasures, moves int
	oldest          time.Duration
	failed          [2]int // erasures, moves
}

func (u *userWork) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

func (u *userWork) Erasures(n int, oldest time.Duration) {
	u.set(func() { u.erasures, u.oldest = n, oldest })
}
func (u *userWork) Moves(n int)    { u.set(func() { u.moves = n }) }
func (u *userWork) ErasureFailed() { u.set(func() { u.failed[0]++ }) }
func (u *userWork) MoveFailed()    { u.set(func() { u.failed[1]++ }) }

// until waits until what was heard is as wanted.
func (u *userWork) until(t *testing.T, what string, want func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		ok := false
		u.set(func() { ok = want() })
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: heard %d erasures, the oldest of %v, %d moves, failures %v", what, u.erasures, u.oldest,
				u.moves, u.failed)
		}
	}
}

// What waits is counted, with the age of the oldest, and so are tries that fail.
func TestUserWorkIsCounted(t *testing.T) {
	heard := &userWork{}
	w, history, store := eraseWorld(t, func(o *Options) { o.Listener = heard })
	w.server.erasures.measureEvery, w.server.moves.measureEvery = 10*time.Millisecond, 10*time.Millisecond
	history.set(func() { history.away = true })
	long := preferences.Erasure{User: preferences.User{Tenant: "default", ID: "ada"}, At: time.Now().Add(-time.Hour)}
	if err := store.Erase(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusAccepted, "DELETE", "/v1/users/bob", "")
	w.must(http.StatusOK, "PUT", "/v1/preferences/eve", `{"timezone":"Asia/Tokyo"}`)
	stop := runErasures(t, w.server)
	heard.until(t, "while the history is away", func() bool {
		return heard.erasures == 2 && heard.oldest > 59*time.Minute && heard.oldest < 2*time.Hour &&
			heard.failed[0] >= 2
	})
	stop()
	history.set(func() { history.away = false })
	second, _ := w.gateway(w.engine, func(o *Options) {
		o.Preferences, o.UserTriggers, o.Listener = store, history, heard
	})
	second.erasures.measureEvery, second.moves.measureEvery = 10*time.Millisecond, 10*time.Millisecond
	heard.set(func() { heard.moves = -1 })
	runMoves(t, second)
	heard.until(t, "after the move", func() bool { return heard.moves == 0 && heard.failed[1] == 0 })
	runErasures(t, second)
	w.untilErased("bob")
}
