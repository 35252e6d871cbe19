// Package preferencestest tests that a preferences.Store does what the interface promises.
package preferencestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/preferences"
)

// Open makes an empty store with MaxUsers. It returns a function that opens the store anew after
// it was closed.
type Open func(t testing.TB) (reopen func() preferences.Store)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, preferences.Store, func() preferences.Store)
	}{
		{"unknown users have defaults", testUnknown},
		{"put replaces, for one user of one tenant", testReplace},
		{"many at once keep their order", testMany},
		{"one that does not parse holds up nobody", testUnreadable},
		{"one that does not parse takes an opt-out", testOptOutOfUnreadable},
		{"a new zone is a move, once", testMoves},
		{"the oldest move comes first", testOldest},
		{"a move that fails goes behind the others", testMoveBehind},
		{"a move of another tenant is claimed past those of one", testMovesOfOthers},
		{"a newer zone takes the move's place", testNewer},
		{"a lease that is over is anybody's", testLease},
		{"what was put is there after a restart", testRestart},
		{"writers of one user leave one move", testWriters},
		{"claims exclude each other", testClaims},
		{"a context that ended", testEnded},
		{"without limits everything is sent", testNoLimits},
		{"a second message of a type is a duplicate", testDuplicates},
		{"messages of one call see each other", testAtOnce},
		{"caps slide, and high passes", testCaps},
		{"a message has one verdict, after a restart too", testOneVerdict},
		{"a message that failed is free", testRelease},
		{"claims are swept when they are over", testSweep},
		{"workers that race keep the limits", testRace},
		{"workers that race about one message agree", testSameMessage},
		{"a batch of many users", testManyClaims},
		{"random messages, and a list of all of them", testModel},
		{"claims with a context that ended", testClaimsEnded},
		{"an erasure takes all that is kept of a user", testErase},
		{"an erasure goes on after a restart", testErasureGoesOn},
		{"a second erasure covers what the first does", testEraseTwice},
		{"tenants take turns with erasures", testErasureTurns},
		{"an erasure of another tenant is claimed past those of one", testErasuresOfOthers},
		{"the oldest erasure that is not done", testOldestPending},
		{"an erasure that fails goes behind the others", testErasureBehind},
		{"an erasure whose lease is over is anybody's", testErasureLease},
		{"a finished erasure keeps no user, and ends", testErasureDone},
		{"erasures with a context that ended", testErasuresEnded},
		{"a tenant has at most so many users", testTooManyUsers},
		{"an opt-out of one user too many holds", testOptOutOfOneTooMany},
		{"new users at once are at most so many", testManyNewUsers},
		{"erasures of a tenant that wait are counted", testWaitingErasures},
	} {
		t.Run(c.name, func(t *testing.T) {
			reopen := open(t)
			s := reopen()
			t.Cleanup(func() { s.Close() })
			c.test(t, s, reopen)
		})
	}
}

const lease = time.Minute

var (
	ada = preferences.User{Tenant: "default", ID: "ada"}
	bob = preferences.User{Tenant: "default", ID: "bob/ü:1"}
)

// Rich returns preferences with every field set, derived from a seed.
func Rich(r *rand.Rand) *preferences.Preferences {
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Tokyo"}
	b := fmt.Appendf(nil, `{"opted_out_channels":["SMS"],"preferred_channels":["push","email"],"locale":"pt-BR",
		"notification_types":{"marketing":false,"news":{"sms":false,"push":true},"t%d":true},
		"quiet_hours":{"from":"%02d:00","to":"07:00","days":["MO","SU"],"channels":["push"]},
		"addresses":{"push":[{"provider":"fcm","token":"t%d"}],"sms":"+4915112345678","email":"ada@example.com"},
		"timezone":%q}`, r.IntN(9), 20+r.IntN(4), r.Uint32(), zones[r.IntN(len(zones))])
	p, err := preferences.Decode(b, calendar.Embedded())
	if err != nil {
		panic(err)
	}
	return p
}

func in(zone string) *preferences.Preferences { return &preferences.Preferences{Zone: zone} }

func put(t testing.TB, s preferences.Store, u preferences.User, p *preferences.Preferences) {
	t.Helper()
	if err := s.Put(t.Context(), u, p); err != nil {
		t.Fatal(err)
	}
}

func wantThat(t testing.TB, s preferences.Store, u preferences.User, want *preferences.Preferences) {
	t.Helper()
	got, err := s.Get(t.Context(), []preferences.User{u})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !bytes.Equal(got[0].Encode(), want.Encode()) {
		t.Fatalf("%v has %s, want %s", u, got[0].Encode(), want.Encode())
	}
}

// claimed claims a move, which must be this user's, to this zone. If u is zero, there must be
// none.
func claimed(t testing.TB, s preferences.Store, u preferences.User, zone string) preferences.Move {
	t.Helper()
	m, ok, err := s.Claim(t.Context(), nil, lease)
	if err != nil {
		t.Fatal(err)
	}
	if ok != (u != preferences.User{}) || ok && (m.User != u || m.Zone != zone || m.Claim == "" || m.Seq < 1) {
		t.Fatalf("claimed %+v %v, want a move of %v to %s", m, ok, u, zone)
	}
	return m
}

// moves checks how many moves are not done, claimed or not.
func moves(t testing.TB, s preferences.Store, want int) {
	t.Helper()
	if n, err := s.Moves(t.Context()); n != want || err != nil {
		t.Fatalf("%d moves, %v; want %d", n, err, want)
	}
}

func none(t testing.TB, s preferences.Store) { t.Helper(); claimed(t, s, preferences.User{}, "") }

func renewed(t testing.TB, s preferences.Store, m preferences.Move, want bool) {
	t.Helper()
	if ok, err := s.Renew(t.Context(), m, lease); ok != want || err != nil {
		t.Fatalf("renewed %+v: %v, %v; want %v", m, ok, err, want)
	}
}

func done(t testing.TB, s preferences.Store, m preferences.Move) {
	t.Helper()
	if err := s.Done(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func testUnknown(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	wantThat(t, s, ada, &preferences.Preferences{})
	if got, err := s.Get(t.Context(), nil); len(got) != 0 || err != nil {
		t.Fatalf("nobody: %v, %v", got, err)
	}
	none(t, s)
}

// No Put of a gateway writes this document: its quiet hours begin at 83:20. Only its user is
// affected, and a Put replaces it.
func testUnreadable(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	put(t, s, ada, &preferences.Preferences{Locale: "de", Quiet: &preferences.Quiet{From: 5000, To: 5001}})
	put(t, s, bob, in("Asia/Tokyo"))
	eve := preferences.User{Tenant: "default", ID: "eve"}
	got, err := s.Get(t.Context(), []preferences.User{bob, ada, eve, bob})
	e, is := errors.AsType[*preferences.UnreadableError](err)
	if !is || errors.Is(err, preferences.ErrAway) || len(e.Users) != 1 || e.Users[0] != ada {
		t.Fatalf("the error is %v", err)
	}
	if len(got) != 4 || got[1] != nil || got[2] == nil || got[0].Zone != "Asia/Tokyo" || got[3].Zone != "Asia/Tokyo" {
		t.Fatalf("it has %v", got)
	}
	if _, err := s.Edit(t.Context(), ada, func(p *preferences.Preferences) (*preferences.Preferences, bool) {
		t.Errorf("what does not parse is changed: %+v", p)
		return p, false
	}); !errors.As(err, &e) {
		t.Errorf("an edit of what does not parse: %v", err)
	}
	put(t, s, ada, in("Asia/Tokyo"))
	wantThat(t, s, ada, in("Asia/Tokyo"))
	claimed(t, s, bob, "Asia/Tokyo")
	claimed(t, s, ada, "Asia/Tokyo")
	none(t, s)
}

// testOptOutOfUnreadable checks that a click on an unsubscribe link opts the user out, whatever
// is wrong with the document.
func testOptOutOfUnreadable(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	put(t, s, ada, &preferences.Preferences{
		Locale: "de", Zone: "Asia/Tokyo", OptedOut: []string{"sms"},
		Types: map[string]preferences.Type{"bill": {Wanted: true}},
		Quiet: &preferences.Quiet{From: 5000, To: 5001}, Addresses: preferences.Addresses{Email: "ada@example.com"},
	})
	untouched := func(u preferences.User) {
		t.Helper()
		mended, err := s.Mend(t.Context(), u, func([]byte) *preferences.Preferences {
			t.Errorf("%v is mended", u)
			return &preferences.Preferences{}
		})
		if mended || err != nil {
			t.Errorf("%v: %v, %v", u, mended, err)
		}
	}
	untouched(bob)
	changed, mended, err := preferences.OptOut(t.Context(), s, ada, "email", "offers")
	if !changed || !mended || err != nil {
		t.Fatalf("changed %v, mended %v, %v", changed, mended, err)
	}
	want := &preferences.Preferences{
		Locale: "de", Zone: "Asia/Tokyo", OptedOut: []string{"sms"},
		Types: map[string]preferences.Type{
			"bill": {Wanted: true}, "offers": {Channels: map[string]bool{"email": false}},
		},
		Addresses: preferences.Addresses{Email: "ada@example.com"},
	}
	wantThat(t, s, ada, want)
	untouched(ada)
	changed, mended, err = preferences.OptOut(t.Context(), s, ada, "email", "offers")
	if changed || mended || err != nil {
		t.Errorf("the second time: changed %v, mended %v, %v", changed, mended, err)
	}
	// The zone is unchanged, so this is not a move.
	done(t, s, claimed(t, s, ada, "Asia/Tokyo"))
	put(t, s, ada, want)
	none(t, s)
	// The user was erased, and has a document since then that cannot be parsed.
	erase(t, s, toErase(ada, 1, 1))
	put(t, s, ada, &preferences.Preferences{Quiet: &preferences.Quiet{From: 5000, To: 5001}})
	got, err := s.Get(t.Context(), []preferences.User{ada, bob})
	if _, is := errors.AsType[*preferences.UnreadableError](err); !is || got[0] != nil || got[1] == nil {
		t.Errorf("%v, %v", got, err)
	}
}

func testReplace(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	r := rand.New(rand.NewPCG(1, 2))
	rich := Rich(r)
	put(t, s, ada, rich)
	put(t, s, bob, in("Asia/Tokyo"))
	wantThat(t, s, ada, rich)
	put(t, s, ada, &preferences.Preferences{OptedOut: []string{"push"}})
	wantThat(t, s, ada, &preferences.Preferences{OptedOut: []string{"push"}})
	wantThat(t, s, bob, in("Asia/Tokyo"))
	wantThat(t, s, preferences.User{Tenant: "acme", ID: "ada"}, &preferences.Preferences{})
}

func testMany(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	r := rand.New(rand.NewPCG(3, 4))
	var users []preferences.User
	var want []*preferences.Preferences
	for i := range 50 {
		u := preferences.User{Tenant: fmt.Sprintf("t%d", i%3), ID: fmt.Sprint("u", i)}
		p := &preferences.Preferences{}
		if i%5 != 0 {
			p = Rich(r)
			put(t, s, u, p)
		}
		users, want = append(users, u, u), append(want, p, p)
	}
	got, err := s.Get(t.Context(), users)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !bytes.Equal(got[i].Encode(), want[i].Encode()) {
			t.Errorf("%v has %s, want %s", users[i], got[i].Encode(), want[i].Encode())
		}
	}
}

func testMoves(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	put(t, s, ada, &preferences.Preferences{OptedOut: []string{"sms"}})
	none(t, s)
	put(t, s, ada, in("Asia/Tokyo"))
	m := claimed(t, s, ada, "Asia/Tokyo")
	none(t, s)
	moves(t, s, 1)
	renewed(t, s, m, true)
	done(t, s, m)
	renewed(t, s, m, false)
	none(t, s)
	moves(t, s, 0)
	put(t, s, ada, in("Asia/Tokyo"))
	none(t, s)
	put(t, s, ada, in("Europe/Berlin"))
	put(t, s, ada, &preferences.Preferences{})
	none(t, s)
	put(t, s, ada, in("Europe/Berlin"))
	done(t, s, claimed(t, s, ada, "Europe/Berlin"))
	none(t, s)
}

func testOldest(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	for i := range 5 {
		put(t, s, preferences.User{Tenant: "t", ID: fmt.Sprint(9 - i)}, in("Asia/Tokyo"))
	}
	put(t, s, preferences.User{Tenant: "t", ID: "9"}, in("Europe/Berlin")) // its move is now behind the others
	for _, id := range []string{"8", "7", "6", "5"} {
		claimed(t, s, preferences.User{Tenant: "t", ID: id}, "Asia/Tokyo")
	}
	claimed(t, s, preferences.User{Tenant: "t", ID: "9"}, "Europe/Berlin")
}

func testMoveBehind(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	var users []preferences.User
	for i := range 4 {
		users = append(users, preferences.User{Tenant: "t", ID: fmt.Sprint(i)})
		put(t, s, users[i], in("Asia/Tokyo"))
	}
	claim := func(lease time.Duration) (m preferences.Move) {
		t.Helper()
		m, ok, err := s.Claim(t.Context(), nil, lease)
		if err != nil || !ok {
			t.Fatalf("no move can be claimed: %v", err)
		}
		return m
	}
	// Two claims end without success, the second one first.
	first, second := claim(lease), claim(20*time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	renewed(t, s, first, true)
	if ok, err := s.Renew(t.Context(), first, time.Millisecond); !ok || err != nil {
		t.Fatal(ok, err)
	}
	time.Sleep(30 * time.Millisecond)
	for _, want := range []preferences.User{users[2], users[3], second.User, first.User} {
		if m := claim(lease); m.User != want {
			t.Fatalf("claimed the move of %v, want %v", m.User, want)
		}
	}
	none(t, s)
}

func testMovesOfOthers(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	user := func(tenant string, i int) preferences.User {
		return preferences.User{Tenant: tenant, ID: fmt.Sprint(i)}
	}
	for i := range 3 {
		put(t, s, user("big", i), in("Asia/Tokyo"))
	}
	put(t, s, user("small", 0), in("Asia/Tokyo"))
	claim := func(lease time.Duration, want preferences.User, except ...string) {
		t.Helper()
		m, ok, err := s.Claim(t.Context(), except, lease)
		if err != nil || m.User != want || ok != (want != preferences.User{}) {
			t.Fatalf("except %q: claimed %+v, %v, %v; want one of %v", except, m, ok, err, want)
		}
	}
	claim(lease, user("big", 0))
	claim(time.Millisecond, user("small", 0), "big", "none")
	claim(lease, preferences.User{}, "big", "small")
	time.Sleep(20 * time.Millisecond)
	claim(lease, user("small", 0), "big") // its claim has ended
	claim(lease, preferences.User{}, "big")
	claim(lease, user("big", 1), "small")
	claim(lease, user("big", 2))
}

func testNewer(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	put(t, s, ada, in("Asia/Tokyo"))
	old := claimed(t, s, ada, "Asia/Tokyo")
	put(t, s, ada, in("Europe/Berlin"))
	none(t, s) // the holder of the old claim may still be writing
	renewed(t, s, old, false)
	done(t, s, old)
	m := claimed(t, s, ada, "Europe/Berlin")
	if m.Seq <= old.Seq {
		t.Errorf("seq %d after %d", m.Seq, old.Seq)
	}
	done(t, s, old) // too late: the claim is lost
	renewed(t, s, m, true)
	done(t, s, m)
	none(t, s)
}

func testLease(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	put(t, s, ada, in("Asia/Tokyo"))
	first, ok, err := s.Claim(t.Context(), nil, time.Millisecond)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	time.Sleep(20 * time.Millisecond)
	second := claimed(t, s, ada, "Asia/Tokyo")
	renewed(t, s, first, false)
	done(t, s, first)
	renewed(t, s, second, true)
	done(t, s, second)
	none(t, s)
}

func testRestart(t *testing.T, s preferences.Store, reopen func() preferences.Store) {
	rich := Rich(rand.New(rand.NewPCG(5, 6)))
	put(t, s, ada, rich)
	put(t, s, bob, in("Asia/Tokyo"))
	done(t, s, claimed(t, s, ada, rich.Zone))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	defer s.Close()
	wantThat(t, s, ada, rich)
	m := claimed(t, s, bob, "Asia/Tokyo")
	put(t, s, ada, in("Pacific/Apia"))
	if next := claimed(t, s, ada, "Pacific/Apia"); next.Seq <= m.Seq {
		t.Errorf("seq %d after %d", next.Seq, m.Seq)
	}
}

func testWriters(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	zones := []string{"Asia/Tokyo", "Europe/Berlin", "America/New_York", "Pacific/Apia"}
	var wg sync.WaitGroup
	for _, zone := range zones {
		wg.Go(func() {
			for range 10 {
				if err := s.Put(t.Context(), ada, in(zone)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := s.Get(t.Context(), []preferences.User{ada})
	if err != nil {
		t.Fatal(err)
	}
	claimed(t, s, ada, got[0].Zone) // only the newest zone
	none(t, s)
}

func testClaims(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	const users, workers = 20, 4
	for i := range users {
		put(t, s, preferences.User{Tenant: "t", ID: fmt.Sprint(i)}, in("Asia/Tokyo"))
	}
	var mu sync.Mutex
	count := map[string]int{}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				m, ok, err := s.Claim(t.Context(), nil, lease)
				if err != nil || !ok {
					if err != nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				count[m.User.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range count {
		if n != 1 {
			t.Errorf("move of %s was claimed %d times", id, n)
		}
	}
	if len(count) < users { // with SKIP LOCKED, a worker may find all remaining moves locked
		for range users - len(count) {
			if _, ok, err := s.Claim(t.Context(), nil, lease); !ok || err != nil {
				t.Fatalf("%d of %d moves were claimed: %v", len(count), users, err)
			}
		}
	}
	none(t, s)
}

func testEnded(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, []preferences.User{ada}); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: %v", err)
	}
	if err := s.Put(ctx, ada, in("Asia/Tokyo")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: %v", err)
	}
	wantThat(t, s, ada, &preferences.Preferences{})
}

// BatchSize is how many due events Bench reads preferences for at once.
const BatchSize = 500

// Bench measures reading the preferences of a batch, and the decisions on all its events.
func Bench(b *testing.B, s preferences.Store) {
	r := rand.New(rand.NewPCG(7, 8))
	const known = 2000
	for i := range known {
		put(b, s, preferences.User{Tenant: "default", ID: fmt.Sprint("user-", i)}, Rich(r))
	}
	zones, now := calendar.Embedded(), time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)
	users := make([]preferences.User, BatchSize)
	b.ReportAllocs()
	for b.Loop() {
		for i := range users { // a tenth of them have no preferences
			users[i] = preferences.User{Tenant: "default", ID: fmt.Sprint("user-", r.IntN(known*10/9))}
		}
		all, err := s.Get(b.Context(), users)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range all {
			p.Decide(preferences.Due{Channel: "push", Type: "news"}, now, zones)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/BatchSize, "µs/event")
}
