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

	"github.com/waterclock/waterclock/trigger"
)

// namedAtMost is how many triggers a refusal names.
const namedAtMost = 5

// Use is who names a calendar, or a channel.
type Use struct {
	Triggers int64    `json:"triggers"`      // of all tenants, those that are not over
	IDs      []string `json:"ids,omitempty"` // of one tenant, in order, at most namedAtMost
}

// named is what triggers may name: one of the two.
type named struct{ calendar, channel string }

func (n named) by(st *trigger.State) bool {
	if n.channel == "" {
		return st.Uses(n.calendar)
	}
	return st.Spec.GoesTo(n.channel) || slices.ContainsFunc(st.Live, func(l trigger.Live) bool {
		return l.Was != nil && l.Was.GoesTo(n.channel)
	})
}

// CalendarUse asks every partition who names a calendar.
func (r *Router) CalendarUse(ctx context.Context, tenant, name string) (Use, error) {
	return r.use(ctx, tenant, named{calendar: name})
}

// ChannelUse asks every partition who names a channel.
func (r *Router) ChannelUse(ctx context.Context, tenant, name string) (Use, error) {
	return r.use(ctx, tenant, named{channel: name})
}

func (r *Router) use(ctx context.Context, tenant string, name named) (sum Use, err error) {
	all := make([]Use, r.partitions)
	err = r.each(ctx, func(ctx context.Context, p int32) (err error) {
		return r.ask(ctx, p, SearchTimeout,
			func() error { all[p], err = use(ctx, r.own, p, tenant, name); return err },
			func(addr string) error { all[p], err = r.peer.use(ctx, addr, p, tenant, name); return err })
	})
	for _, u := range all {
		sum.Triggers += u.Triggers
		sum.IDs = append(sum.IDs, u.IDs...)
	}
	slices.Sort(sum.IDs)
	sum.IDs = sum.IDs[:min(len(sum.IDs), namedAtMost)]
	return sum, err
}

// use asks one partition of this process.
func use(ctx context.Context, o Owner, partition int32, tenant string, name named) (u Use, err error) {
	turns := scan{ctx: ctx, tenant: tenant, budget: &Budget{}}
	defer turns.end()
	err = o.Scan(ctx, partition, "", func(st *trigger.State) bool {
		if !turns.visit(1) {
			return false
		}
		if st.Status.Finished() || !name.by(st) {
			return true
		}
		if u.Triggers++; len(u.IDs) < namedAtMost && st.Key.Tenant() == tenant {
			u.IDs = append(u.IDs, st.Key.ID())
		}
		return true
	})
	return u, errors.Join(err, turns.err)
}

func (c *client) use(ctx context.Context, addr string, partition int32, tenant string, name named) (u Use, err error) {
	q := url.Values{
		"partition": {strconv.Itoa(int(partition))}, "tenant": {tenant}, "calendar": {name.calendar},
		"channel": {name.channel},
	}
	err = c.askJSON(ctx, addr, "calendar-use", q, &u)
	return u, err
}

func (h *handler) calendarUse(w io.Writer, r *http.Request, q url.Values) error {
	partition, err := partitionParam(q)
	if err != nil {
		return err
	}
	u, err := use(r.Context(), h.own, partition, q.Get("tenant"), named{q.Get("calendar"), q.Get("channel")})
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(u)
}
