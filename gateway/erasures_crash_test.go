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

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

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

func (m *mortal) Claim(ctx context.Context, except []string, _ time.Duration) (preferences.Move, bool, error) {
	if err := m.alive(); err != nil {
		return preferences.Move{}, false, err
	}
	return m.Store.Claim(ctx, except, shortLease)
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
			eventually(t, "the death of the process or the end of the erasure", func() bool {
				dying.mu.Lock()
				dead := dying.dead
				dying.mu.Unlock()
				n, _, err := store.PendingErasures(t.Context())
				return dead || err != nil || n == 0
			})
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
