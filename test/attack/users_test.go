package attack

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answered asks until the answer fits, and shows the last one if it never does.
func answered(t *testing.T, within time.Duration, ask func() answer, fits func(answer) bool) answer {
	t.Helper()
	for deadline := time.Now().Add(within); ; {
		a := ask()
		if fits(a) {
			return a
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, a)
		}
		pause(t.Context(), 50*time.Millisecond)
	}
}

// erased waits until a user's erasure is done.
func (c *tenant) erased(t *testing.T, user string, within time.Duration) {
	t.Helper()
	answered(t, within, func() answer { return c.try(t.Context(), "GET", "/v1/users/"+user+"/erasure", "") },
		func(a answer) bool { return strings.Contains(a.body, `"done"`) })
}

// TestUsersOfOthers: a tenant reads no notification and no preference of another's user, erases
// neither, and does not learn that they exist. Both tenants have a user of the same id.
func TestUsersOfOthers(t *testing.T) {
	n := newDev(t)
	v, a := n.as("victim", victimKey), n.as("attacker", attackerKey)
	for _, c := range []*tenant{v, a} {
		c.must(t, http.StatusCreated, "PUT", "/v1/triggers/later",
			`{"delay":"30d","user_id":"u1","payload":{"title":"of `+c.name+`"}}`)
		c.must(t, http.StatusCreated, "PUT", "/v1/triggers/fired",
			`{"delay":"0s","user_id":"u1","payload":{"title":"of `+c.name+`"}}`)
	}
	v.must(t, http.StatusCreated, "PUT", "/v1/triggers/only", `{"delay":"0s","user_id":"u2","payload":"secret"}`)
	v.must(t, http.StatusOK, "PUT", "/v1/preferences/u2", `{"timezone":"Asia/Tokyo"}`)
	listed := func(c *tenant, user string) answer {
		return c.must(t, http.StatusOK, "GET", "/v1/users/"+user+"/notifications?content=1", "")
	}
	for _, user := range []string{"u1", "u2"} {
		answered(t, time.Minute, func() answer { return listed(v, user) },
			func(a answer) bool { return strings.Contains(a.body, "notification_id") })
	}
	refused := []string{ // no user of the attacker's
		"victim/u2", "victim%2Fu2", "..%2Fvictim%2Fu2", "u2%00", "u2?tenant=victim", "u2?user=victim/u2",
	}
	for _, spelled := range refused {
		path, query, _ := strings.Cut(spelled, "?")
		for _, c := range []struct{ method, path string }{
			{"GET", "/v1/users/" + path + "/notifications?content=1&" + query},
			{"GET", "/v1/users/" + path + "/erasure?" + query},
			{"GET", "/v1/preferences/" + path + "?" + query},
			{"DELETE", "/v1/users/" + path + "?" + query},
			{"DELETE", "/v1/preferences/" + path + "?" + query},
		} {
			got := a.try(t.Context(), c.method, c.path, "")
			if got.status >= http.StatusInternalServerError || strings.Contains(got.body, "secret") ||
				strings.Contains(got.body, "Tokyo") || strings.Contains(got.body, "notification_id") {
				t.Errorf("%s %s: %s", c.method, c.path, got)
			}
		}
	}
	for _, user := range []string{"u1", "u2"} { // its own, of the same ids
		a.must(t, http.StatusAccepted, "DELETE", "/v1/users/"+user, "")
		a.erased(t, user, time.Minute)
		reader := a.with(readerKey)
		reader.must(t, http.StatusForbidden, "DELETE", "/v1/users/"+user, "")
		a.with("").must(t, http.StatusUnauthorized, "DELETE", "/v1/users/"+user, "")
	}
	for _, id := range []string{"later", "fired", "only"} {
		if got := v.must(t, http.StatusOK, "GET", "/v1/triggers/"+id, ""); !strings.Contains(got.body, `"user_id"`) {
			t.Errorf("the victim's %s is %s", id, got)
		}
	}
	if got := v.must(t, http.StatusOK, "GET", "/v1/preferences/u2", ""); !strings.Contains(got.body, "Tokyo") {
		t.Errorf("the victim's preferences are %s", got)
	}
	for _, user := range []string{"u1", "u2"} {
		v.must(t, http.StatusNotFound, "GET", "/v1/users/"+user+"/erasure", "")
		if got := listed(v, user); !strings.Contains(got.body, "notification_id") {
			t.Errorf("the victim's notifications of %s are %s", user, got)
		}
	}
	if got := a.must(t, http.StatusOK, "GET", "/v1/triggers?limit=1000", ""); strings.Contains(got.body, "u1") {
		t.Errorf("the attacker's own user is not erased: %s", got)
	}
}

// manyErasures is how many a tenant asks for at once: more than may wait.
const manyErasures = 1200

// erasures asks for as many as are taken, of users of whom there is nothing.
func erasures(ctx context.Context, t *testing.T, a *tenant) {
	var next atomic.Int64
	got := a.many(ctx, 8, func(int) answer {
		return a.try(ctx, "DELETE", fmt.Sprintf("/v1/users/nobody%d", next.Add(1)%manyErasures), "")
	})
	t.Logf("answers: %v", got)
	for status := range got {
		if status != http.StatusAccepted && status != http.StatusTooManyRequests &&
			status != http.StatusServiceUnavailable {
			t.Errorf("%d answers of %d", got[status], status)
		}
	}
}

// TestErasuresTakeTurns: a tenant that erases a thousand users holds up nobody else's erasure.
func TestErasuresTakeTurns(t *testing.T) {
	n := newDev(t)
	v, a := n.as("victim", victimKey), n.as("attacker", attackerKey)
	v.must(t, http.StatusCreated, "PUT", "/v1/triggers/mine", `{"delay":"1d","user_id":"u","payload":1}`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); erasures(ctx, t, a) }()
	defer func() { cancel(); <-done }()
	pause(t.Context(), 2*time.Second)
	v.must(t, http.StatusAccepted, "DELETE", "/v1/users/u", "")
	begun := time.Now()
	v.erased(t, "u", time.Minute)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the victim's erasure took %s", took)
	} else {
		t.Logf("the victim's erasure took %s", took.Round(time.Millisecond))
	}
}
