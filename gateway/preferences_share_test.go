package gateway

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/waterclock/waterclock/gateway/unsubscribe"
	"github.com/waterclock/waterclock/preferences"
)

// pooled is a store of few connections, which hang for one tenant.
type pooled struct {
	away

	hang chan struct{}
	held chan struct{}
}

func (pooled) Conns() int { return 4 }

func (p pooled) Put(_ context.Context, u preferences.User, _ *preferences.Preferences) error {
	if u.Tenant == "acme" {
		p.held <- struct{}{}
		<-p.hang
	}
	return nil
}

// Edit hangs as Put does.
func (p pooled) Edit(ctx context.Context, u preferences.User,
	_ func(*preferences.Preferences) (*preferences.Preferences, bool),
) (bool, error) {
	return true, p.Put(ctx, u, nil)
}

// A tenant whose writes of preferences wait for each other leaves connections to the store for
// other tenants, and one for the workers of this process, which send nothing unread.
func TestPreferencesShared(t *testing.T) {
	store := pooled{hang: make(chan struct{}), held: make(chan struct{}, 100)}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Preferences, o.AckSecrets = testKeys(t), store, func() []string { return []string{ackSecret} }
	})
	var all sync.WaitGroup
	const writes = 10
	for i := range writes {
		all.Go(func() {
			if i%2 == 0 {
				w.call("PUT", "/v1/preferences/ada", `{}`, "Authorization", "Bearer "+keyA)
				return
			}
			w.follow(http.MethodPost, unsubscribe.URL(w.url, []string{ackSecret}, unsubscribe.Link{
				Tenant: "acme", User: "u" + strconv.Itoa(i), Channel: "email",
			}))
		})
	}
	<-store.held
	<-store.held // all that it may have of three
	for range 3 {
		w.must(http.StatusOK, "PUT", "/v1/preferences/bob", `{}`, "Authorization", "Bearer "+keyB)
	}
	if n := len(store.held); n > 0 {
		t.Errorf("%d more are under way", n)
	}
	close(store.hang)
	all.Wait()
	if n := len(store.held); n != writes-2 {
		t.Errorf("%d of the others were written, want %d", n, writes-2)
	}
}
