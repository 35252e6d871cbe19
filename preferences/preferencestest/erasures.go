package preferencestest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// toErase returns an erasure requested at noon, with the ends of two partitions.
func toErase(u preferences.User, first, second int64) preferences.Erasure {
	return preferences.Erasure{User: u, At: noon, Before: map[int32]int64{0: first, 11: second}}
}

func erase(t testing.TB, s preferences.Store, e preferences.Erasure) {
	t.Helper()
	if err := s.Erase(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// erasure returns a user's erasure, which must exist.
func erasure(t testing.TB, s preferences.Store, u preferences.User) preferences.Erasure {
	t.Helper()
	e, ok, err := s.Erasure(t.Context(), u)
	if err != nil || !ok {
		t.Fatalf("no erasure of %v: %v", u, err)
	}
	return e
}

// claimedErasure claims an erasure, which must be this user's. If u is zero, there must be none.
func claimedErasure(t testing.TB, s preferences.Store, u preferences.User, lease time.Duration) preferences.Erasure {
	t.Helper()
	e, ok, err := s.ClaimErasure(t.Context(), preferences.Turn{}, lease)
	if err != nil {
		t.Fatal(err)
	}
	if ok != (u != preferences.User{}) || ok && (e.User != u || e.Claim == "" || e.Seq < 1 || e.Done) {
		t.Fatalf("claimed %+v %v, want one of %v", e, ok, u)
	}
	return e
}

func renewedErasure(t testing.TB, s preferences.Store, e preferences.Erasure, lease time.Duration, want bool) {
	t.Helper()
	if ok, err := s.RenewErasure(t.Context(), e, lease); ok != want || err != nil {
		t.Fatalf("renewed %+v: %v, %v; want %v", e, ok, err, want)
	}
}

func finish(t testing.TB, s preferences.Store, e preferences.Erasure) {
	t.Helper()
	if err := s.FinishErasure(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// pending checks how many erasures are not done.
func pending(t testing.TB, s preferences.Store, want int) {
	t.Helper()
	n, oldest, err := s.PendingErasures(t.Context())
	if n != want || err != nil || oldest.IsZero() != (n == 0) {
		t.Fatalf("%d erasures, the oldest of %v, %v; want %d", n, oldest, err, want)
	}
}

// erasedAt checks the ErasedAt that workers see for a user.
func erasedAt(t testing.TB, s preferences.Store, u preferences.User, want time.Time) {
	t.Helper()
	got, err := s.Get(t.Context(), []preferences.User{bob, u, bob})
	if err != nil || !got[1].ErasedAt.Equal(want) {
		t.Fatalf("%v was erased %v, %v; want %v", u, got[1].ErasedAt, err, want)
	}
}

func testErase(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	others := preferences.User{Tenant: "acme", ID: "ada"} // another tenant's user of the same id
	l := preferences.Limits{Window: time.Hour, Caps: []preferences.Cap{{Most: 1, Within: time.Hour}}}
	theirs := func(m *preferences.Message) { m.User = others }
	for _, u := range []preferences.User{ada, bob, others} {
		put(t, s, u, in("Asia/Tokyo"))
	}
	admitted(t, s, l, 0, []preferences.Message{
		note("a", "x"), note("a", "x", bySMS), note("a", "x", toBob), note("a", "x", theirs),
	}, "", "", "", "")
	if _, ok, err := s.Erasure(t.Context(), ada); ok || err != nil {
		t.Fatalf("an erasure that nobody asked for, %v", err)
	}
	erase(t, s, toErase(ada, 5, 7))
	wantThat(t, s, ada, &preferences.Preferences{})
	erasedAt(t, s, ada, noon)
	for _, u := range []preferences.User{bob, others} {
		wantThat(t, s, u, in("Asia/Tokyo"))
		erasedAt(t, s, u, time.Time{})
		m, ok, err := s.Claim(t.Context(), nil, lease)
		if err != nil || !ok || m.User == ada {
			t.Fatalf("the move of %v: %+v %v", u, m, err)
		}
	}
	moves(t, s, 2)
	admitted(t, s, l, time.Minute, []preferences.Message{
		note("b", "x"), note("b", "x", bySMS), note("b", "x", toBob), note("b", "x", theirs),
	}, "", "", preferences.CodeDuplicate, preferences.CodeDuplicate)
	// What the user sets from here on is new.
	put(t, s, ada, in("Europe/Berlin"))
	wantThat(t, s, ada, in("Europe/Berlin"))
	erasedAt(t, s, ada, noon)
	moves(t, s, 3)
	finish(t, s, claimedErasure(t, s, ada, lease))
	wantThat(t, s, ada, in("Europe/Berlin"))
	admitted(t, s, l, 2*time.Minute, one(note("c", "x")), preferences.CodeDuplicate) // a duplicate of b
}

func testErasureGoesOn(t *testing.T, s preferences.Store, reopen func() preferences.Store) {
	erase(t, s, toErase(ada, 5, 1<<40))
	claimedErasure(t, s, ada, time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	defer s.Close()
	pending(t, s, 1)
	erasedAt(t, s, ada, noon)
	e := claimWhenFree(t, s)
	if e.User != ada || !e.At.Equal(noon) || !maps.Equal(e.Before, map[int32]int64{0: 5, 11: 1 << 40}) {
		t.Fatalf("after a restart: %+v", e)
	}
	for _, c := range []struct {
		partition int32
		offset    int64
		want      bool
	}{{0, 4, true}, {0, 5, false}, {11, 1<<40 - 1, true}, {11, 1 << 40, false}, {3, 1 << 50, true}} {
		if got := e.Covers(c.partition, c.offset); got != c.want {
			t.Errorf("covers %d at %d: %v", c.partition, c.offset, got)
		}
	}
	finish(t, s, e)
	pending(t, s, 0)
}

// claimWhenFree claims an erasure as soon as the earlier lease is over.
func claimWhenFree(t testing.TB, s preferences.Store) preferences.Erasure {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		e, ok, err := s.ClaimErasure(t.Context(), preferences.Turn{}, lease)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no erasure can be claimed: %v", err)
		}
		if ok {
			return e
		}
	}
}

// testErasuresOfOthers: a claim leaves out the tenants that are excepted, whether they were claimed
// before or not, however old theirs are.
func testErasuresOfOthers(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	of := func(tenant, id string) preferences.User { return preferences.User{Tenant: tenant, ID: id} }
	for _, u := range []preferences.User{of("acme", "a"), of("acme", "b"), of("blue", "a"), of("cyan", "a")} {
		erase(t, s, toErase(u, 1, 1))
	}
	claim := func(want preferences.User, lease time.Duration, except ...string) {
		t.Helper()
		e, ok, err := s.ClaimErasure(t.Context(), preferences.Turn{Except: except}, lease)
		if err != nil || ok != (want != preferences.User{}) || e.User != want {
			t.Fatalf("except %q: claimed %v %v, %v; want %v", except, e.User, ok, err, want)
		}
	}
	claim(preferences.User{}, lease, "acme", "blue", "cyan")
	claim(of("cyan", "a"), lease, "acme", "blue", "")
	claim(of("blue", "a"), time.Millisecond, "acme")
	time.Sleep(20 * time.Millisecond)
	claim(of("blue", "a"), lease, "acme") // its claim has ended
	claim(preferences.User{}, lease, "acme")
	claim(of("acme", "a"), lease)
	claim(of("acme", "b"), lease, "blue")
}

func testEraseTwice(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	erase(t, s, toErase(ada, 5, 70))
	first := claimedErasure(t, s, ada, lease)
	first.Triggers = 3
	renewedErasure(t, s, first, lease, true)
	second := toErase(ada, 50, 7)
	second.At = noon.Add(-time.Minute) // from the clock of another instance
	erase(t, s, second)
	renewedErasure(t, s, first, lease, false)
	finish(t, s, first)
	pending(t, s, 1)
	e := claimedErasure(t, s, ada, lease)
	if e.Triggers != 3 || !e.At.Equal(noon) || !maps.Equal(e.Before, map[int32]int64{0: 50, 11: 70}) {
		t.Fatalf("the second is %+v", e)
	}
	finish(t, s, e)
	later := toErase(ada, 60, 60)
	later.At = noon.Add(time.Hour)
	erase(t, s, later)
	if e = erasure(t, s, ada); e.Done || e.Triggers != 0 || !e.At.Equal(later.At) ||
		!maps.Equal(e.Before, later.Before) {
		t.Fatalf("one after that was done is %+v", e)
	}
	erasedAt(t, s, ada, later.At)
	pending(t, s, 1)
}

func testErasureTurns(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	user := func(tenant string, i int) preferences.User {
		return preferences.User{Tenant: tenant, ID: fmt.Sprint("u", i)}
	}
	for _, n := range []struct {
		tenant string
		users  int
	}{{"big", 5}, {"Zoo", 1}, {"small", 2}} {
		for i := range n.users {
			erase(t, s, toErase(user(n.tenant, i), 1, 1))
		}
	}
	pending(t, s, 8)
	claim := func(after string, want preferences.User, except ...string) {
		t.Helper()
		e, ok, err := s.ClaimErasure(t.Context(), preferences.Turn{After: after, Except: except}, lease)
		if err != nil || e.User != want || ok != (want != preferences.User{}) {
			t.Fatalf("after %q: claimed %v, %v, %v; want %v", after, e.User, ok, err, want)
		}
	}
	claim("", user("Zoo", 0))
	claim("Zoo", user("big", 0))
	claim("big", user("small", 0))
	claim("small", user("big", 1)) // Zoo has none that is free
	claim("other", user("small", 1))
	claim("small", preferences.User{}, "big", "none")
	for i := range 3 {
		claim("big", user("big", 2+i), "small")
	}
	claim("", preferences.User{})
	pending(t, s, 8)
}

func testOldestPending(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	pending(t, s, 0)
	for i, u := range []preferences.User{ada, bob} {
		e := toErase(u, 1, 1)
		e.At = noon.Add(time.Duration(i) * time.Hour)
		erase(t, s, e)
	}
	oldest := func(want time.Time) {
		t.Helper()
		if _, got, err := s.PendingErasures(t.Context()); err != nil || !got.Equal(want) {
			t.Errorf("the oldest is of %v, %v; want %v", got, err, want)
		}
	}
	oldest(noon)
	finish(t, s, claimedErasure(t, s, ada, lease))
	oldest(noon.Add(time.Hour))
}

func testErasureBehind(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	var users []preferences.User
	for i := range 4 {
		users = append(users, preferences.User{Tenant: "t", ID: fmt.Sprint(i)})
		erase(t, s, toErase(users[i], 1, 1))
	}
	// Two claims end without success, the second one first.
	first := claimedErasure(t, s, users[0], lease)
	claimedErasure(t, s, users[1], 20*time.Millisecond)
	time.Sleep(30 * time.Millisecond)
	renewedErasure(t, s, first, time.Millisecond, true)
	time.Sleep(30 * time.Millisecond)
	for _, i := range []int{2, 3, 1, 0} {
		claimedErasure(t, s, users[i], lease)
	}
	claimedErasure(t, s, preferences.User{}, lease)
}

func testErasureLease(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	erase(t, s, toErase(ada, 1, 1))
	first := claimedErasure(t, s, ada, time.Millisecond)
	second := claimWhenFree(t, s)
	if second.User != ada || second.Claim == first.Claim {
		t.Fatalf("claimed %+v after %+v", second, first)
	}
	renewedErasure(t, s, first, lease, false)
	finish(t, s, first)
	pending(t, s, 1)
	renewedErasure(t, s, second, lease, true)
	finish(t, s, second)
	renewedErasure(t, s, second, lease, false)
	pending(t, s, 0)
}

func testErasureDone(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Window: time.Hour}
	erase(t, s, toErase(ada, 1, 1))
	// A worker that had read the preferences before the erasure claims a message afterwards. A
	// worker with a message of a new trigger does the same.
	admitted(t, s, l, -time.Second, one(note("old", "x")), "")
	admitted(t, s, l, time.Minute, one(note("new", "y")), "")
	e := claimedErasure(t, s, ada, lease)
	e.Triggers = 4
	finish(t, s, e)
	claimedErasure(t, s, preferences.User{}, lease)
	if e = erasure(t, s, ada); !e.Done || e.User.ID != "" || e.Triggers != 4 || len(e.Before) != 0 {
		t.Fatalf("a finished erasure is %+v", e)
	}
	erasedAt(t, s, ada, noon)
	admitted(t, s, l, 2*time.Minute, []preferences.Message{note("b", "x"), note("c", "y")},
		"", preferences.CodeDuplicate)
	sweep := func(after time.Duration) {
		t.Helper()
		if _, err := s.Sweep(t.Context(), time.Now().Add(after), 10); err != nil {
			t.Fatal(err)
		}
	}
	sweep(preferences.ErasureKept - time.Hour)
	erasedAt(t, s, ada, noon)
	erase(t, s, toErase(bob, 1, 1))
	sweep(preferences.ErasureKept + time.Hour)
	erasedAt(t, s, ada, time.Time{})
	if _, ok, err := s.Erasure(t.Context(), ada); ok || err != nil {
		t.Fatalf("an old erasure is still there, %v", err)
	}
	pending(t, s, 1) // bob's is not done
}

func testErasuresEnded(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, claim := s.ClaimErasure(ctx, preferences.Turn{}, lease)
	_, renew := s.RenewErasure(ctx, preferences.Erasure{}, lease)
	_, _, read := s.Erasure(ctx, ada)
	_, _, count := s.PendingErasures(ctx)
	for i, err := range []error{
		s.Erase(ctx, toErase(ada, 1, 1)), claim, renew, read, count, s.FinishErasure(ctx, preferences.Erasure{}),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	pending(t, s, 0)
}
