package slots_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/waterclock/waterclock/internal/slots"
)

// One tenant cannot take all slots, and what ends gives its slot back.
func TestShared(t *testing.T) {
	s := slots.New(8, true)
	for _, c := range []struct {
		tenant string
		want   int
	}{{"a", 4}, {"b", 2}, {"c", 1}, {"d", 1}, {"e", 0}} {
		got := 0
		for s.Take(c.tenant) {
			got++
		}
		if got != c.want || s.Held(c.tenant) != c.want {
			t.Errorf("%s took %d, want %d", c.tenant, got, c.want)
		}
	}
	if full := s.Full(); !slices.Equal(full, []string{"a", "b", "c", "d"}) {
		t.Errorf("full are %q", full)
	}
	for range 4 {
		s.Release("a")
	}
	if full := s.Full(); len(full) > 0 {
		t.Errorf("full are %q, with four free", full)
	}
	if !s.Take("e") || s.Held("a") != 0 {
		t.Error("after a has ended e gets none")
	}
	alone := slots.New(2, false)
	if first, second, third := alone.Take(""), alone.Take(""), alone.Take(""); !first || !second || third {
		t.Error("without tenants all are everybody's")
	}
	if full := alone.Full(); len(full) > 0 {
		t.Errorf("without tenants none is full, and not %q", full)
	}
}

// Tenants take turns: one with a hundred requests delays another's by one.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(1, true)
		if !s.Take("first") {
			t.Fatal("none is free")
		}
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		wait := func(tenant string) {
			all.Go(func() {
				if err := s.Wait(t.Context(), tenant); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				s.Release(tenant)
			})
			synctest.Wait()
		}
		for range 100 {
			wait("many")
		}
		wait("one")
		s.Release("first")
		all.Wait()
		if at := slices.Index(order, "one"); at != 1 || s.Waiting() {
			t.Errorf("it was served as number %d of %d", at+1, len(order))
		}
	})
}

// Who gives up gets no slot and leaves none behind; too many are refused at once.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(1, false)
		s.Take("a")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range slots.MaxWaiting {
			all.Go(func() {
				if err := s.Wait(ctx, "a"); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := s.Wait(ctx, "a"); !errors.Is(err, slots.ErrFull) {
			t.Errorf("one more: %v", err)
		}
		cancel()
		all.Wait()
		s.Release("a")
		if s.Waiting() || s.Held("a") != 0 || !s.Take("b") {
			t.Error("a slot is lost")
		}
	})
}

// Slots are taken and waited for by the dozen, too: in order within a tenant, and who gives up lets the next one in.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots.New(12, true)
		if !s.TakeN("a", 6) || s.TakeN("a", 1) || !s.TakeN("b", 3) || s.TakeN("b", 1) {
			t.Fatal("a has half of all, and b half of the rest")
		}
		ctx, cancel := context.WithCancel(t.Context())
		large, small := make(chan error, 1), make(chan error, 1)
		go func() { large <- s.WaitN(ctx, "c", 4) }()
		synctest.Wait()
		go func() { small <- s.WaitN(t.Context(), "c", 3) }()
		synctest.Wait()
		if s.Held("c") != 0 || s.Take("c") {
			t.Error("c passes its own request that waits")
		}
		cancel()
		if err := <-large; err == nil {
			t.Error("four of three were free")
		}
		if err := <-small; err != nil || s.Held("c") != 3 {
			t.Errorf("%v, c holds %d", err, s.Held("c"))
		}
		s.ReleaseN("a", 6)
		s.ReleaseN("b", 3)
		if s.Held("a")+s.Held("b") != 0 || !s.TakeN("d", 9) {
			t.Error("what was given back is not free")
		}
	})
}
