package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/trigger"
)

// Lateness joins what the owners of all partitions report for the window that ends at now: of
// one tenant, or of all if it is empty. Partitions that do not answer within SearchTimeout are
// named; if none answers, that is an error.
func (r *Router) Lateness(ctx context.Context, now trigger.Instant, w lateness.Window, tenant string) (
	sum lateness.Report, silent []int32, err error,
) {
	all, silent, err := askAll(ctx, r,
		func(ctx context.Context, p int32) (lateness.Report, error) {
			return r.own.Lateness(ctx, p, now, w, tenant)
		},
		func(ctx context.Context, addr string, p int32) (lateness.Report, error) {
			return r.peer.lateness(ctx, addr, p, now, w, tenant)
		})
	return lateness.Join(int64(now), w, all), silent, err
}

// askAll asks the owner of every partition, this process or another one, and gives each
// SearchTimeout. Those that did not answer are silent, and their answers are empty.
func askAll[T any](ctx context.Context, r *Router, own func(context.Context, int32) (T, error),
	remote func(ctx context.Context, addr string, p int32) (T, error),
) (all []T, silent []int32, err error) {
	all = make([]T, r.partitions)
	var mu sync.Mutex
	err = r.each(ctx, func(ctx context.Context, p int32) error {
		within, cancel := context.WithTimeout(ctx, SearchTimeout)
		defer cancel()
		var answer T
		err := r.ask(within, p, SearchTimeout,
			func() (err error) { answer, err = own(within, p); return err },
			func(addr string) (err error) { answer, err = remote(within, addr, p); return err })
		if err == nil {
			all[p] = answer
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		silent = append(silent, p)
		return ctx.Err()
	})
	slices.Sort(silent)
	if err == nil && len(silent) == int(r.partitions) {
		err = ErrNoOwner
	}
	return all, silent, err
}

func (c *client) lateness(
	ctx context.Context, addr string, partition int32, now trigger.Instant, w lateness.Window, tenant string,
) (r lateness.Report, err error) {
	q := url.Values{
		"partition": {strconv.Itoa(int(partition))}, "now": {strconv.FormatInt(int64(now), 10)}, "window": {w.Name},
		"tenant": {tenant},
	}
	err = c.askJSON(ctx, addr, "lateness", q, &r)
	return r, err
}

func (h *handler) lateness(w io.Writer, r *http.Request, q url.Values) error {
	partition, err := partitionParam(q)
	now, err2 := strconv.ParseInt(q.Get("now"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	window, ok := lateness.WindowOf(q.Get("window"))
	if !ok {
		return problem.BadParameter("window", "no such window")
	}
	report, err := h.own.Lateness(r.Context(), partition, trigger.Instant(now), window, q.Get("tenant"))
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(report)
}
