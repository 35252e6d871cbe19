package peer

import (
	"context"
	"log/slog"
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

// A question that is cut short costs little: nobody knows whether the owner read, or did nothing but wait.
func TestHungOwnerCostsLittle(t *testing.T) {
	t.Parallel()
	trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hung.Close)
	last := func(context.Context, int32) (OwnerRecord, error) {
		return OwnerRecord{Address: hung.Listener.Addr().String()}, nil
	}
	for name, ask := range map[string]func(r *Router, ctx context.Context, cost *Budget) error{
		"use": func(r *Router, ctx context.Context, cost *Budget) error {
			_, err := r.CalendarUse(ctx, "acme", "us", cost)
			return err
		},
		"list": func(r *Router, ctx context.Context, cost *Budget) error {
			_, err := r.Find(ctx, Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: cost})
			return err
		},
		"list without the barrier": func(r *Router, ctx context.Context, cost *Budget) error {
			_, err := r.Find(ctx, Query{Tenant: "acme", Limit: 10, Budget: 1000, Cost: cost, Stale: true})
			return err
		},
		"forecast": func(r *Router, ctx context.Context, cost *Budget) error {
			_, err := r.Forecast(ctx, ForecastQuery{Tenant: "acme", Bucket: 1, N: 1, Cost: cost}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRouter(Config{Partitions: 3, Trust: trust, LastOwner: last})
			within, stop := context.WithTimeout(t.Context(), mostCut+500*time.Millisecond)
			defer stop()
			var cost Budget
			if err := ask(r, within, &cost); err == nil {
				t.Fatal("a frozen owner has answered")
			}
			if got := cost.Cost(); got == 0 || got > int64(mostCut/visitTakes) {
				t.Errorf("it costs as much as %d visits, want at most %d, and some", got, mostCut/visitTakes)
			}
		})
	}
}
