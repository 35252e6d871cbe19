package preferencestest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// crowded is a tenant that may have at most mostUsers.
const (
	crowded   = "crowded"
	mostUsers = 3
)

// MaxUsers is the option that Open passes to a store.
func MaxUsers(tenant string) int {
	if tenant == crowded {
		return mostUsers
	}
	return 0
}

func crowdedUser(i int) preferences.User {
	return preferences.User{Tenant: crowded, ID: fmt.Sprint("u", i)}
}

func crowdedErasure(i int) preferences.Erasure {
	return preferences.Erasure{User: crowdedUser(i), At: time.Now(), Before: map[int32]int64{0: 1}}
}

// refused checks that a Put of a user beyond the bound is refused and leaves no data.
func refused(t testing.TB, s preferences.Store, u preferences.User) {
	t.Helper()
	err := s.Put(t.Context(), u, in("Asia/Tokyo"))
	if !errors.Is(err, preferences.ErrTooManyUsers) || errors.Is(err, preferences.ErrAway) {
		t.Fatalf("one too many: %v", err)
	}
	wantThat(t, s, u, &preferences.Preferences{})
}

func testTooManyUsers(t *testing.T, s preferences.Store, reopen func() preferences.Store) {
	for i := range mostUsers {
		put(t, s, crowdedUser(i), in(""))
	}
	refused(t, s, crowdedUser(mostUsers))
	moves(t, s, 0)
	for i := range mostUsers { // users that it has may change
		put(t, s, crowdedUser(i), in("Asia/Tokyo"))
	}
	for i := range 2 * mostUsers { // another tenant, whose name has the same prefix
		put(t, s, preferences.User{Tenant: crowded + "2", ID: fmt.Sprint(i)}, in(""))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	defer s.Close()
	refused(t, s, crowdedUser(mostUsers))
	for range 2 { // the second erase must not lower the count further
		erase(t, s, crowdedErasure(0))
	}
	put(t, s, crowdedUser(mostUsers), in(""))
	refused(t, s, crowdedUser(0))
}

// An opt-out is never refused, but it counts.
func testOptOutOfOneTooMany(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	for i := range mostUsers - 1 {
		put(t, s, crowdedUser(i), in(""))
	}
	for i := range 2 {
		u := crowdedUser(mostUsers + i)
		for _, want := range []bool{true, false} { // the second call changes nothing
			changed, _, err := preferences.OptOut(t.Context(), s, u, "email", "news")
			if changed != want || err != nil {
				t.Fatalf("opt-out %d: %v, %v", i, changed, err)
			}
		}
	}
	refused(t, s, crowdedUser(mostUsers-1))
	for i := range 2 {
		erase(t, s, crowdedErasure(mostUsers+i))
	}
	put(t, s, crowdedUser(mostUsers-1), in(""))
	refused(t, s, crowdedUser(mostUsers))
}

// When many new users come at once, exactly the allowed number is accepted.
func testManyNewUsers(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	var taken atomic.Int64
	var all sync.WaitGroup
	for i := range 8 * mostUsers {
		all.Go(func() {
			switch err := s.Put(t.Context(), crowdedUser(i), in("")); {
			case err == nil:
				taken.Add(1)
			case !errors.Is(err, preferences.ErrTooManyUsers):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != mostUsers {
		t.Errorf("%d new users were taken, and there may be %d", n, mostUsers)
	}
}

// Waiting erasures are counted per tenant, up to a bound.
func testWaitingErasures(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	waiting := func(tenant string, most, want int) {
		t.Helper()
		if n, err := s.WaitingErasures(t.Context(), tenant, most); n != want || err != nil {
			t.Errorf("%d erasures of %s wait, %v; want %d", n, tenant, err, want)
		}
	}
	waiting(crowded, 10, 0)
	for i := range 5 {
		erase(t, s, crowdedErasure(i))
		erase(t, s, crowdedErasure(i)) // counts as one
	}
	erase(t, s, preferences.Erasure{User: ada, At: time.Now(), Before: map[int32]int64{0: 1}})
	waiting(crowded, 10, 5)
	waiting(crowded, 3, 3)
	waiting(ada.Tenant, 10, 1)
	waiting("nobody", 10, 0)
	finish(t, s, claimedErasure(t, s, crowdedUser(0), lease))
	waiting(crowded, 10, 4)
}
