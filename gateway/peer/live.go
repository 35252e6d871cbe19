package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/trigger"
)

// LiveQuery asks the owner of a partition what is new.
type LiveQuery struct {
	Now   trigger.Instant // the end of the last minute
	Asked []live.Asked    // at most MostAsked
	State bool            // how the partition is, too
}

// MostAsked bounds the tenants of one LiveQuery.
const MostAsked = 32

// LiveAnswer is what is new in a partition.
type LiveAnswer struct {
	News  []live.News `json:"news"`            // for each of Asked, in order
	State *LiveState  `json:"state,omitempty"` // if it was asked for
}

// LiveState is how a partition is.
type LiveState struct {
	Ready       bool                 `json:"ready"`
	Pending     int64                `json:"pending"`
	CommandsLag int64                `json:"lag"`
	OverdueMS   int64                `json:"overdue"`
	Late        []lateness.Histogram `json:"late"`             // of the last minute, for each of Asked, in order
	AllLate     lateness.Histogram   `json:"all"`              // of all tenants
	LatePartly  bool                 `json:"partly,omitempty"` // Late is too low: not all tenants were told apart
}

// Live asks the owner of a partition what is new.
func (r *Router) Live(ctx context.Context, partition int32, q *LiveQuery) (a LiveAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, SearchTimeout)
	defer cancel()
	err = r.ask(ctx, partition, SearchTimeout,
		func() error { a, err = r.own.Live(ctx, partition, q); return err },
		func(addr string) error { a, err = r.peer.live(ctx, addr, partition, q); return err })
	return a, err
}

func (c *client) live(ctx context.Context, addr string, partition int32, q *LiveQuery) (a LiveAnswer, err error) {
	v := url.Values{
		"partition": {strconv.Itoa(int(partition))}, "now": {strconv.FormatInt(int64(q.Now), 10)},
		"state": {strconv.FormatBool(q.State)},
	}
	for _, t := range q.Asked {
		v.Add("of", strconv.FormatInt(t.Life, 10)+" "+strconv.FormatInt(t.Next, 10)+" "+t.Tenant)
	}
	if err = c.askJSON(ctx, addr, "live", v, &a); err == nil && len(a.News) != len(q.Asked) {
		err = brokeOff(addr, errNews)
	}
	return a, err
}

var errNews = errors.New("it is not about the tenants that were asked for")

func (h *handler) live(w io.Writer, r *http.Request, v url.Values) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := liveQueryFrom(v)
	if err != nil {
		return err
	}
	a, err := h.own.Live(r.Context(), partition, &q)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(a)
}

func liveQueryFrom(v url.Values) (q LiveQuery, err error) {
	now, err := strconv.ParseInt(v.Get("now"), 10, 64)
	if err != nil {
		return q, err
	}
	q.Now, q.State = trigger.Instant(now), v.Get("state") == "true"
	if len(v["of"]) > MostAsked {
		return q, problem.BadParameter("of", "too many tenants")
	}
	for _, text := range v["of"] {
		life, rest, _ := strings.Cut(text, " ")
		next, tenant, _ := strings.Cut(rest, " ")
		a := live.Asked{Tenant: tenant}
		var err2 error
		a.Life, err = strconv.ParseInt(life, 10, 64)
		a.Next, err2 = strconv.ParseInt(next, 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return q, err
		}
		q.Asked = append(q.Asked, a)
	}
	return q, nil
}
