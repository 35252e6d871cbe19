package peer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/forecast"
)

// Expected joins what the owners of all partitions expect. Partitions that do not answer within
// SearchTimeout, or have no picture yet, are named; if there is no other, that is an error.
func (r *Router) Expected(ctx context.Context, q forecast.Query) (sum forecast.Answer, silent []int32, err error) {
	all, silent, err := askAll(ctx, r,
		func(ctx context.Context, p int32) (forecast.Answer, error) { return r.own.Forecast(ctx, p, q) },
		func(ctx context.Context, addr string, p int32) (forecast.Answer, error) {
			return r.peer.picture(ctx, addr, p, q)
		})
	return forecast.Join(q.N, all), silent, err
}

func (c *client) picture(ctx context.Context, addr string, partition int32, q forecast.Query) (
	a forecast.Answer, err error,
) {
	err = c.askJSON(ctx, addr, "picture", url.Values{
		"partition": {strconv.Itoa(int(partition))}, "frame": {forecast.Frames[q.Frame].Name},
		"first": {strconv.FormatInt(q.FirstMS, 10)}, "n": {strconv.Itoa(q.N)}, "tenant": {q.Tenant}, "by": {q.By},
	}, &a)
	return a, err
}

func (h *handler) picture(w io.Writer, r *http.Request, v url.Values) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := pictureQuery(v)
	if err != nil {
		return err
	}
	a, err := h.own.Forecast(r.Context(), partition, q)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(a)
}

func pictureQuery(v url.Values) (q forecast.Query, err error) {
	var ok bool
	if q.Frame, ok = forecast.FrameOf(v.Get("frame")); !ok {
		return q, problem.BadParameter("frame", "no such frame")
	}
	if q.FirstMS, err = strconv.ParseInt(v.Get("first"), 10, 64); err != nil {
		return q, err
	}
	if q.N, err = strconv.Atoi(v.Get("n")); err != nil || q.N < 1 || q.N > forecast.Frames[q.Frame].Buckets {
		return q, problem.BadParameter("n", "too many buckets")
	}
	q.Tenant, q.By = v.Get("tenant"), v.Get("by")
	return q, nil
}
