package gateway

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

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
	eventuallyNil(t, what, func() (err error) {
		u.set(func() {
			if !want() {
				err = fmt.Errorf("heard %d erasures, the oldest of %v, %d moves, failures %v", u.erasures, u.oldest,
					u.moves, u.failed)
			}
		})
		return err
	})
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
