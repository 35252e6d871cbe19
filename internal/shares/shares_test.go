package shares

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// try is Enter without a wait.
func (s *Shares) try(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.came(tenant)
	return s.take(tenant)
}

// However much others want, a tenant that comes finds places. Who is alone has
// nearly all.
func TestShares(t *testing.T) {
	now := time.Now()
	s := New(1000, func() time.Time { return now })
	take := func(tenant string) (n int) {
		for s.running < s.room && s.try(tenant) {
			n++
		}
		return n
	}
	free := func(tenant string, n int) {
		for range n {
			s.Leave(tenant)
		}
	}
	if n := take("a"); n != 938 {
		t.Errorf("alone: %d of 1,000", n)
	}
	if !s.try("b") {
		t.Error("one that comes while another one was alone finds no place")
	}
	free("b", 1)
	free("a", 938)
	free("b", take("b"))
	if n := take("a"); n != 667 {
		t.Errorf("where another one may come: %d of 1,000", n)
	}
	b, c := take("b"), take("c")
	if b < 200 || c < 70 {
		t.Errorf("those that come get %d and %d", b, c)
	}
	free("a", 667)
	held := map[string]int{"b": b, "c": c}
	for range 5000 { // all want: each has its share, and places are free
		for _, tenant := range []string{"a", "b", "c"} {
			if s.try(tenant) {
				held[tenant]++
			}
		}
	}
	if left := s.room - s.running; left < 100 || held["a"] < 200 {
		t.Errorf("free %d, held %v", left, held)
	}
	for tenant, n := range held {
		free(tenant, n)
	}
	if s.running != 0 || len(s.by) != 0 {
		t.Errorf("left over: %d, %v", s.running, s.by)
	}
	free("a", take("a"))
	now = now.Add(othersCount + time.Minute)
	if n := take("a"); n != 938 {
		t.Errorf("alone for long: %d of 1,000", n)
	}
}

// With few places one is free for another tenant; if there is but one, whoever comes may have it.
func TestSharesOfFew(t *testing.T) {
	for room, want := range map[int]int{1: 1, 2: 1, 3: 2, 17: 16, 64: 60} {
		s, got := New(room, time.Now), 0
		for s.running < room && s.try("a") {
			got++
		}
		if got != want {
			t.Errorf("%d of %d, want %d", got, room, want)
		}
		if room > 1 && !s.try("b") {
			t.Errorf("of %d places none is left for another", room)
		}
	}
}

// Who has its share and waits in vain for more does not wait again for a while: those
// that wait take the places of handlers from all others.
func TestSharesAreNotWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(100, time.Now)
		ctx := t.Context()
		if !s.Enter(ctx, "good") {
			t.Fatal("no place in an empty house")
		}
		s.Leave("good")
		for s.Enter(ctx, "bad") { // until it has its share; the last one waits
		}
		begun := time.Now()
		for range 1000 {
			if s.Enter(ctx, "bad") {
				t.Fatal("over its share")
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("1,000 events of a tenant whose calls hang waited %v", waited)
		}
		if !s.Enter(ctx, "good") || time.Since(begun) != 0 {
			t.Error("another tenant waits")
		}
		s.Leave("good")
		time.Sleep(shareRest)
		begun = time.Now()
		time.AfterFunc(100*time.Millisecond, func() { s.Leave("bad") })
		if !s.Enter(ctx, "bad") || time.Since(begun) > 120*time.Millisecond {
			t.Errorf("a place that came free was not taken; waited %v", time.Since(begun))
		}
	})
}

// A tenant that is alone, with calls that are answered and more events than places, waits for places in turn: none of
// its events is turned away, though it leaves places free for others.
func TestAloneAtFullLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, events = 64, 100
		s := New(room, time.Now)
		var most atomic.Int64
		var handlers sync.WaitGroup
		for range room {
			handlers.Go(func() {
				for range events {
					begun := time.Now()
					if !s.Enter(t.Context(), "a") {
						t.Error("an event was turned away")
						return
					}
					if waited := time.Since(begun); waited > time.Duration(most.Load()) {
						most.Store(int64(waited))
					}
					time.Sleep(200 * time.Millisecond)
					s.Leave("a")
				}
			})
		}
		handlers.Wait()
		if most := time.Duration(most.Load()); most > 400*time.Millisecond {
			t.Errorf("an event waited %v: others went ahead", most)
		}
		if s.Running() != 0 || len(s.waiting) != 0 {
			t.Errorf("%d running, %d waiting", s.Running(), len(s.waiting))
		}
	})
}

// If its calls hang, what it has more of is turned away after a moment, and another tenant finds a place.
func TestAloneAndHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 64
		s := New(room, time.Now)
		turned := 0
		var mu sync.Mutex
		var handlers sync.WaitGroup
		for range room {
			handlers.Go(func() {
				if !s.Enter(t.Context(), "a") {
					mu.Lock()
					defer mu.Unlock()
					turned++
				}
			})
		}
		handlers.Wait()
		if turned != room/keptFree || !s.Enter(t.Context(), "b") {
			t.Errorf("%d of %d were turned away", turned, room)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if running := s.Running(); s.Enter(ctx, "a") || s.Running() != running || len(s.waiting) != 0 {
			t.Error("whoever gives up has a place, or still waits")
		}
	})
}
