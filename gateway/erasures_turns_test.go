package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

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
