package gateway

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/preferences"
)

// Moves of one tenant that stand still leave room for those of another, however many wait.
func TestMovesOfTenants(t *testing.T) {
	const many = 3 * outboxAtOnce
	store := &stuckMoves{testStore(t), map[string]bool{}}
	w := newWorld(t, func(o *Options) { o.Preferences, o.Auth = store, testKeys(t) })
	put := func(tenant, user string) {
		u := preferences.User{Tenant: tenant, ID: user}
		if err := store.Put(t.Context(), u, &preferences.Preferences{Zone: "Asia/Tokyo"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range many {
		user := fmt.Sprint("slow", i)
		store.stuck[user] = true
		put("acme", user)
	}
	runMoves(t, w.server)
	for i := range 3 {
		put("blue", fmt.Sprint(i))
		w.server.moves.wake()
		eventually(t, "the move of another tenant", func() bool {
			n, err := store.Moves(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return n == many
		})
	}
}
