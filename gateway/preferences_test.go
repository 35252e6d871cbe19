package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/trigger"
)

func testStore(t testing.TB) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const noPreferences = `{"opted_out_channels":[],"preferred_channels":[],"notification_types":{},"quiet_hours":{},"addresses":{}}` + "\n"

// Preferences are the caller's tenant's: another tenant's user of the same name is
// another user.
func TestPreferencesOfTenants(t *testing.T) {
	store := testStore(t)
	w := newWorld(t, func(o *Options) { o.Auth, o.Preferences = testKeys(t), store })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	read := func(key, user string) string {
		return w.must(http.StatusOK, "GET", "/v1/preferences/"+user, "", as(key)...).body
	}
	if got := read(keyA, "ada"); got != noPreferences {
		t.Errorf("unknown: %s", got)
	}
	const body = `{"opted_out_channels":["SMS"],"addresses":{"email":"ada@example.com"}}`
	const want = `{"opted_out_channels":["sms"],"preferred_channels":[],"notification_types":{},"quiet_hours":{},` +
		`"addresses":{"email":"ada@example.com"}}` + "\n"
	if got := w.must(http.StatusOK, "PUT", "/v1/preferences/ada", body, as(keyA)...).body; got != want {
		t.Errorf("put: %s", got)
	}
	for key, want := range map[string]string{keyA: want, keyR: want, keyO: want, keyB: noPreferences} {
		if got := read(key, "ada"); got != want {
			t.Errorf("read: %s, want %s", got, want)
		}
	}
	w.must(http.StatusForbidden, "PUT", "/v1/preferences/ada", `{}`, as(keyR)...)
	w.must(http.StatusUnauthorized, "GET", "/v1/preferences/ada", "")
	w.must(http.StatusOK, "PUT", "/v1/preferences/a%2Fb%20%C3%BC%3Ax", `{"locale":"de"}`, as(keyA)...)
	if got := read(keyA, "a%2Fb%20%C3%BC%3Ax"); !strings.Contains(got, `"locale":"de"`) {
		t.Errorf("a user of many characters: %s", got)
	}
	if got := w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{}`, as(keyA)...).body; got != noPreferences {
		t.Errorf("PUT replaces: %s", got)
	}
}

// A tenant fills no store: one user too many is refused, and other tenants and the users it has are not.
func TestPreferencesOfTooManyUsers(t *testing.T) {
	store, err := embedded.Open(embedded.Options{
		Dir: t.TempDir(), MaxUsers: func(tenant string) int { return map[string]int{"acme": 2}[tenant] },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := newWorld(t, func(o *Options) { o.Auth, o.Preferences = testKeys(t), store })
	put := func(status int, key, user string) string {
		return w.must(status, "PUT", "/v1/preferences/"+user, `{"locale":"de"}`, "Authorization", "Bearer "+key).body
	}
	put(http.StatusOK, keyA, "1")
	put(http.StatusOK, keyA, "2")
	if got := put(http.StatusTooManyRequests, keyA, "3"); !strings.Contains(got, "quota_exceeded") ||
		!strings.Contains(got, "max_users") {
		t.Errorf("one too many: %s", got)
	}
	put(http.StatusOK, keyA, "2")
	for _, user := range []string{"1", "2", "3"} {
		put(http.StatusOK, keyB, user)
	}
}

// A tenant that erases users without end holds up its own erasures, and not those of others.
func TestErasuresWithoutEnd(t *testing.T) {
	store, err := embedded.Open(embedded.Options{Dir: "/preferences", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	w := newWorld(t, func(o *Options) { o.Auth, o.Preferences = testKeys(t), store })
	for i := range mostErasures {
		e := preferences.Erasure{
			User: preferences.User{Tenant: "acme", ID: fmt.Sprint(i)}, At: time.Now(), Before: map[int32]int64{0: 1},
		}
		if err := store.Erase(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	erase := func(status int, key, user string) answer {
		t.Helper()
		return w.must(status, "DELETE", "/v1/users/"+user, "", "Authorization", "Bearer "+key)
	}
	if got := erase(http.StatusTooManyRequests, keyA, "one-more"); got.header.Get("Retry-After") == "" ||
		!strings.Contains(got.body, "quota_exceeded") {
		t.Errorf("one too many: %s", got.body)
	}
	erase(http.StatusAccepted, keyA, "7") // which waits already
	erase(http.StatusAccepted, keyB, "bob")
	e, ok, err := store.ClaimErasure(t.Context(), preferences.Turn{}, time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := store.FinishErasure(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	erase(http.StatusAccepted, keyA, "one-more")
}

func TestPreferencesRefused(t *testing.T) {
	store := testStore(t)
	w := newWorld(t, func(o *Options) { o.Preferences = store })
	for _, c := range []struct {
		name, user, body string
		status           int
		code, field      string
	}{
		{"no JSON", "u", `{`, 400, "malformed", ""},
		{"a list", "u", `[]`, 400, "malformed", ""},
		{"empty", "u", ``, 400, "malformed", ""},
		{"unknown field", "u", `{"quite_hours":{}}`, 422, "unknown_field", "quite_hours"},
		{"zone", "u", `{"timezone":"Mars/Phobos"}`, 422, "unknown_zone", "timezone"},
		{"inner field", "u", `{"timezone":"UTC","quiet_hours":{"from":"x","to":"07:00"}}`, 422, "invalid", "quiet_hours.from"},
		{"long", "u", `{"locale":"` + strings.Repeat("x", preferences.MaxDocument) + `"}`, 413, "too_large", ""},
		{"user of a control character", "a%00", `{}`, 422, "invalid", "user_id"},
		{"long user", strings.Repeat("x", 256), `{}`, 422, "invalid", "user_id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := w.on(t).must(c.status, "PUT", "/v1/preferences/"+c.user, c.body)
			if code, field := a.get(t, "code"), a.get(t, "field"); code != c.code || field != c.field {
				t.Errorf("%s %s, want %s %s: %s", code, field, c.code, c.field, a.body)
			}
		})
	}
	w.must(http.StatusBadRequest, "PUT", "/v1/preferences/u", `{}`, "If-Match", `"1"`)
}

// away is a store that does not answer.
type away struct{ preferences.Store }

func (away) Get(context.Context, []preferences.User) ([]*preferences.Preferences, error) {
	return nil, fmt.Errorf("%w: %w", preferences.ErrAway, errors.New("secret of the server"))
}

func (away) Put(context.Context, preferences.User, *preferences.Preferences) error {
	return preferences.ErrAway
}

// Without a store, and with one that does not answer, it is 503, and says which.
func TestPreferencesAway(t *testing.T) {
	for name, c := range map[string]struct {
		store preferences.Store
		want  string
	}{"none": {nil, "postgres.url"}, "away": {away{}, "does not answer"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Preferences = c.store })
			for method, body := range map[string]string{"GET": "", "PUT": `{}`} {
				a := w.must(http.StatusServiceUnavailable, method, "/v1/preferences/u", body)
				if a.get(t, "code") != "unavailable" || !strings.Contains(a.get(t, "detail"), c.want) ||
					a.header.Get("Retry-After") == "" || strings.Contains(a.body, "secret") {
					t.Errorf("%s: %s", method, a.body)
				}
			}
			w.must(http.StatusUnprocessableEntity, "PUT", "/v1/preferences/u", `{"x":1}`)
		})
	}
}

// rezones counts what the engine made of rezone commands, by trigger.
type rezones struct {
	mu    sync.Mutex
	facts map[string][]trigger.FactType
	stop  func(n int) // hears of each, under the lock
}

func (c *rezones) seen(r *kgo.Record, facts []trigger.Fact) {
	if !strings.Contains(string(r.Value), `"op":"rezone"`) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range facts {
		c.facts[string(r.Key)] = append(c.facts[string(r.Key)], f.Type)
	}
	if c.stop != nil {
		c.stop(len(c.facts))
	}
}

func (c *rezones) by(key string) []trigger.FactType {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]trigger.FactType(nil), c.facts[key]...)
}

func followWorld(t *testing.T, store preferences.Store) (*world, *rezones) {
	t.Helper()
	w := newWorld(t, func(o *Options) { o.Preferences = store })
	c := &rezones{facts: map[string][]trigger.FactType{}}
	w.engine.set(func() { w.engine.seen = c.seen })
	return w, c
}

const berlin = `"timezone":"Europe/Berlin","user_id":"ada"`

// untilNone waits until the outbox is empty.
func untilNone(t *testing.T, store preferences.Store) {
	t.Helper()
	eventuallyNil(t, "an empty outbox", func() error {
		n, err := store.Moves(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return fmt.Errorf("%d left", n)
		}
		return nil
	})
}

// runMoves runs the driver of a server until stop is called, or the test ends.
func runMoves(t *testing.T, s *Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.RunMoves(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// A new zone moves what follows the user, and nothing else.
func TestFollowUser(t *testing.T) {
	store := testStore(t)
	w, c := followWorld(t, store)
	register := func(id, body string) {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, "{"+body+"}")
	}
	const at, daily = `"fire_at":"2060-07-01T09:00",`, `"recurrence":"FREQ=DAILY","start":"2060-07-01T09:00",`
	register("once", at+berlin+`,"follow_user":true`)
	register("series", daily+berlin+`,"follow_user":true`)
	register("paused", daily+berlin+`,"follow_user":true`)
	w.must(http.StatusOK, "POST", "/v1/triggers/paused:pause", "")
	register("stays", at+berlin)
	register("other", at+`"timezone":"Europe/Berlin","user_id":"bob","follow_user":true`)
	register("there", at+`"timezone":"Asia/Tokyo","user_id":"ada","follow_user":true`)
	register("over", at+berlin+`,"follow_user":true`)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/over", "")
	runMoves(t, w.server)
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`)
	untilNone(t, store)
	for id, want := range map[string]string{
		"once": "Asia/Tokyo", "series": "Asia/Tokyo", "paused": "Asia/Tokyo", "stays": "Europe/Berlin",
		"other": "Europe/Berlin", "there": "Asia/Tokyo",
	} {
		a := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "")
		if got := a.get(t, "timezone"); got != want {
			t.Errorf("%s is in %s, want %s", id, got, want)
		}
		most := 1
		if id == "stays" || id == "other" || id == "there" {
			most = 0
		}
		if facts := c.by(string(idKey(id))); len(facts) > most {
			t.Errorf("%s: %v", id, facts)
		}
	}
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/once", ""); a.get(t, "fire_at") != "2060-07-01T00:00:00.000Z" {
		t.Errorf("09:00 in Tokyo is %s", a.body)
	}
	// The same zone again is no move.
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo","locale":"ja"}`)
	if n, err := store.Moves(t.Context()); n != 0 || err != nil {
		t.Errorf("%d moves to the same zone, %v", n, err)
	}
}

// A gateway that dies half-way leaves the row; another goes on. Each trigger moves
// once: what a repeat meets is in the zone already.
func TestFollowUserAfterACrash(t *testing.T) {
	store := testStore(t)
	w, c := followWorld(t, store)
	const n = 1200 // more than two pages
	var batch strings.Builder
	for i := range n {
		fmt.Fprintf(&batch, `{"id":"t%d","fire_at":"2060-07-01T09:00",%s,"follow_user":true}`+"\n", i, berlin)
	}
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", batch.String())
	// The first dies when some of its writes have arrived: nothing of it runs on, and
	// its claim stands until the lease is over.
	half := make(chan struct{})
	c.mu.Lock()
	c.stop = func(moved int) {
		if moved == n/3 {
			close(half)
		}
	}
	c.mu.Unlock()
	hurried := &mortal{Store: store, left: -1}
	first, _ := w.gateway(w.engine, func(o *Options) { o.Preferences = hurried })
	stop := runMoves(t, first)
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`)
	<-half
	hurried.die()
	stop()
	second, _ := w.gateway(w.engine, func(o *Options) { o.Preferences = store })
	runMoves(t, second)
	eventuallyNil(t, "the moves", func() error {
		moved := 0
		w.engine.set(func() {
			for _, st := range w.engine.states {
				if st.Spec.When.Zone == "Asia/Tokyo" {
					moved++
				}
			}
		})
		if moved != n {
			return fmt.Errorf("%d of %d", moved, n)
		}
		return nil
	})
	untilNone(t, store)
	for i := range n {
		moved := 0
		facts := c.by(string(idKey(fmt.Sprint("t", i))))
		for _, f := range facts {
			switch f {
			case trigger.Rescheduled:
				moved++
			case trigger.Duplicate:
			default:
				t.Errorf("t%d: %v", i, facts)
			}
		}
		if moved != 1 {
			t.Errorf("t%d moved %d times: %v", i, moved, facts)
		}
	}
}

// The newest zone wins, however fast they follow each other, with two drivers.
func TestFollowUserNewestZone(t *testing.T) {
	store := testStore(t)
	w, _ := followWorld(t, store)
	for i := range 20 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/t%d", i), `{"fire_at":"2060-07-01T09:00",`+berlin+
			`,"follow_user":true}`)
	}
	second, _ := w.gateway(w.engine, func(o *Options) { o.Preferences = store })
	runMoves(t, w.server)
	runMoves(t, second)
	zones := []string{"Asia/Tokyo", "America/New_York", "Europe/Berlin", "Pacific/Apia"}
	for i := range 12 {
		w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"`+zones[i%4]+`"}`)
	}
	eventuallyNil(t, "all triggers in the newest zone", func() error {
		there := 0
		for i := range 20 {
			if w.state(idKey(fmt.Sprint("t", i))).Spec.When.Zone == zones[3] {
				there++
			}
		}
		if there != 20 {
			return fmt.Errorf("%d of 20", there)
		}
		return nil
	})
	untilNone(t, store)
}

// What the engine refuses does not keep the move.
func TestFollowUserRefused(t *testing.T) {
	store := testStore(t)
	w, _ := followWorld(t, store)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/good", `{"fire_at":"2060-07-01T09:00",`+berlin+`,"follow_user":true}`)
	// The zone is known to the store, and not to this engine.
	if err := store.Put(t.Context(), preferences.User{Tenant: "default", ID: "ada"},
		&preferences.Preferences{Zone: "Mars/Phobos"}); err != nil {
		t.Fatal(err)
	}
	runMoves(t, w.server)
	untilNone(t, store)
	if z := w.state(idKey("good")).Spec.When.Zone; z != "Europe/Berlin" {
		t.Errorf("moved to %s", z)
	}
}

// stuckMoves is a store that never answers about the moves of some users.
type stuckMoves struct {
	preferences.Store
	stuck map[string]bool
}

func (s *stuckMoves) Renew(ctx context.Context, m preferences.Move, lease time.Duration) (bool, error) {
	if s.stuck[m.User.ID] {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return s.Store.Renew(ctx, m, lease)
}

// Moves run side by side: those that stand still hold up no other.
func TestFollowUsersSideBySide(t *testing.T) {
	store := &stuckMoves{testStore(t), map[string]bool{}}
	w, _ := followWorld(t, store)
	for i := range outboxAtOnce - 1 {
		user := fmt.Sprint("slow", i)
		store.stuck[user] = true
		w.must(http.StatusOK, "PUT", "/v1/preferences/"+user, `{"timezone":"Asia/Tokyo"}`)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", `{"fire_at":"2060-07-01T09:00",`+berlin+`,"follow_user":true}`)
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`)
	runMoves(t, w.server)
	eventually(t, "the move of ada's trigger", func() bool {
		return w.state(idKey("t")).Spec.When.Zone == "Asia/Tokyo"
	})
}
