package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// A partition whose owner does not answer holds no other partition up, however many
// of a tenant's writes wait for it: a write that is decided would be answered 202.
func TestHungOwnerHoldsUpItsOwnPartitionOnly(t *testing.T) {
	trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	var hanging atomic.Int64
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hanging.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(hung.Close)
	well := httptest.NewUnstartedServer(nil)
	well.Config.Handler = NewHandler(&quick{}, well.Listener.Addr().String(), trust, nil, slog.New(slog.DiscardHandler))
	well.Start()
	t.Cleanup(well.Close)
	owners := []string{hung.Listener.Addr().String(), well.Listener.Addr().String()}
	last := func(_ context.Context, p int32) (OwnerRecord, error) { return OwnerRecord{Address: owners[p]}, nil }
	r := NewRouter(Config{Partitions: 2, Trust: trust, LastOwner: last})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 600 {
		go func() { _ = r.Decisions(ctx, 0, []Question{{Key: "busy/a", Offset: 1}}) }()
	}
	most := hanging.Load()
	for since := time.Now(); time.Since(since) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if n := hanging.Load(); n > most { // more still come
			most, since = n, time.Now()
		}
	}
	within, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	list := []Question{{Key: "busy/b", Offset: 1}}
	if err := r.Decisions(within, 1, list); err != nil || !list[0].Answered {
		t.Errorf("while %d questions wait for another owner: answered %t, %v", most, list[0].Answered, err)
	}
}

// An owner freezes, and another takes its partition over. Nobody is left to say that the first has moved, so the
// first question that it does not answer makes the next one look for the owner.
func TestHungOwnerIsNotAskedForEver(t *testing.T) {
	trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	well := httptest.NewUnstartedServer(nil)
	well.Config.Handler = NewHandler(&quick{}, well.Listener.Addr().String(), trust, nil, slog.New(slog.DiscardHandler))
	well.Start()
	t.Cleanup(well.Close)
	owner := hung.Listener.Addr().String()
	last := func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: owner}, nil }
	r := NewRouter(Config{Partitions: 1, Trust: trust, LastOwner: last})
	list := []Question{{Key: "a", Offset: 1}}
	within, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if err := r.Decisions(within, 0, list); err == nil {
		t.Fatal("a frozen owner has answered")
	}
	owner = well.Listener.Addr().String()
	within, stop = context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := r.Decisions(within, 0, list); err != nil || !list[0].Answered {
		t.Errorf("another has taken over: answered %t, %v", list[0].Answered, err)
	}
}

// quick has decided everything.
type quick struct{ Owner }

func (*quick) Decision(context.Context, trigger.Key, int32, int64) (Decision, bool, error) {
	return Decision{}, false, nil
}

// A question that its caller cuts short costs little: nobody knows whether the owner read, or did nothing but wait.
func TestHungOwnerCostsLittle(t *testing.T) {
	t.Parallel()
	r := hungRouter(t)
	for name, q := range map[string]struct {
		leaves time.Duration
		ask    func(ctx context.Context, cost *Budget) error
	}{
		"use": {mostCut + 500*time.Millisecond, func(ctx context.Context, cost *Budget) error {
			_, err := r.CalendarUse(ctx, "acme", "us", cost)
			return err
		}},
		"list": {mostCut + 500*time.Millisecond, func(ctx context.Context, cost *Budget) error {
			_, err := r.Find(ctx, Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: cost})
			return err
		}},
		"list without the barrier": {SearchTimeout / 2, func(ctx context.Context, cost *Budget) error {
			_, err := r.Find(ctx, Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: cost, Stale: true})
			return err
		}},
		"forecast": {mostCut + 500*time.Millisecond, func(ctx context.Context, cost *Budget) error {
			_, err := r.Forecast(ctx, ForecastQuery{Tenant: "acme", Bucket: 1, N: 1, Cost: cost}, nil)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within, stop := context.WithTimeout(t.Context(), q.leaves)
			defer stop()
			var cost Budget
			if err := q.ask(within, &cost); err == nil {
				t.Fatal("a frozen owner has answered")
			}
			if got := cost.Cost(); got == 0 || got > int64(mostCut/visitTakes) {
				t.Errorf("it costs as much as %d visits, want at most %d, and some", got, mostCut/visitTakes)
			}
		})
	}
}

// hungRouter is a router whose partitions all have a frozen owner.
func hungRouter(t *testing.T) *Router {
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	return routerTo(hung.Listener.Addr(), trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true}))
}

func routerTo(owner net.Addr, trust *Credentials) *Router {
	last := func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: owner.String()}, nil }
	return NewRouter(Config{Partitions: 3, Trust: trust, LastOwner: last})
}

// A list without the read barrier goes on without a frozen owner after a second. Its caller is still there, and does
// not pay for that: people list most when something is frozen.
func TestFrozenOwnerCostsNothing(t *testing.T) {
	t.Parallel()
	r := hungRouter(t)
	var cost Budget
	_, err := r.Find(t.Context(), Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: &cost, Stale: true})
	if got := cost.Cost(); !errors.Is(err, ErrNoOwner) || got > 0 {
		t.Errorf("it costs as much as %d visits (%v)", got, err)
	}
}

// Who leaves before an owner even takes the connection pays nothing: nobody has read.
func TestUnreachableOwnerCostsNothing(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it never shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	r := routerTo(silent.Addr(), trusting(t, Trust{Secrets: bytesOf(peerSecret)}))
	for _, stale := range []bool{false, true} {
		within, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
		var cost Budget
		_, err := r.Find(within, Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: &cost, Stale: stale})
		stop()
		if got := cost.Cost(); err == nil || got > 0 {
			t.Errorf("stale %t: it costs as much as %d visits (%v)", stale, got, err)
		}
	}
}
