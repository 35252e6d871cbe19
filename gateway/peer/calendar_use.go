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

// CalendarUse is who names a calendar.
type CalendarUse struct {
	Triggers int64    `json:"triggers"`      // of all tenants, those that are not over
	IDs      []string `json:"ids,omitempty"` // of one tenant, in order, at most namedAtMost
}

// CalendarUse asks every partition.
func (r *Router) CalendarUse(ctx context.Context, tenant, name string) (sum CalendarUse, err error) {
	all := make([]CalendarUse, r.partitions)
	err = r.each(ctx, func(ctx context.Context, p int32) (err error) {
		return r.ask(ctx, p, Patience,
			func() error { all[p], err = calendarUse(ctx, r.own, p, tenant, name); return err },
			func(addr string) error { all[p], err = r.peer.calendarUse(ctx, addr, p, tenant, name); return err })
	})
	for _, u := range all {
		sum.Triggers += u.Triggers
		sum.IDs = append(sum.IDs, u.IDs...)
	}
	slices.Sort(sum.IDs)
	sum.IDs = sum.IDs[:min(len(sum.IDs), namedAtMost)]
	return sum, err
}

// calendarUse asks one partition of this process.
func calendarUse(ctx context.Context, o Owner, partition int32, tenant, name string) (u CalendarUse, err error) {
	turns := scan{ctx: ctx, tenant: tenant, budget: &Budget{}}
	defer turns.end()
	err = o.Scan(ctx, partition, "", func(st *trigger.State) bool {
		if !turns.visit(1) {
			return false
		}
		if st.Status.Finished() || !st.Uses(name) {
			return true
		}
		if u.Triggers++; len(u.IDs) < namedAtMost && st.Key.Tenant() == tenant {
			u.IDs = append(u.IDs, st.Key.ID())
		}
		return true
	})
	return u, errors.Join(err, turns.err)
}

func (c *client) calendarUse(ctx context.Context, addr string, partition int32, tenant, name string) (u CalendarUse,
	err error,
) {
	q := url.Values{"partition": {strconv.Itoa(int(partition))}, "tenant": {tenant}, "calendar": {name}}
	err = c.askJSON(ctx, addr, "calendar-use", q, &u)
	return u, err
}

func (h *handler) calendarUse(w io.Writer, r *http.Request, q url.Values) error {
	partition, err := partitionParam(q)
	if err != nil {
		return err
	}
	u, err := calendarUse(r.Context(), h.own, partition, q.Get("tenant"), q.Get("calendar"))
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(u)
}
