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
	"strings"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// namedAtMost is how many triggers a refusal names.
const namedAtMost = 5

// Use is who names a calendar, or a channel.
type Use struct {
	Triggers int64    `json:"triggers"`      // of all tenants, those that are not over
	IDs      []string `json:"ids,omitempty"` // of one tenant, in order, at most namedAtMost

	// Of another instance: what it cost there. An instance of before says nothing.
	Visited int64         `json:"visited,omitempty"`
	Spent   time.Duration `json:"spent,omitempty"`
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

// tenant is whose triggers alone may name it: a tenant's own calendar is nobody else's. "" are all.
func (n named) tenant() string {
	tenant, _, own := strings.Cut(n.calendar, "/")
	if !own {
		return ""
	}
	return tenant
}

// CalendarUse asks every partition who names a calendar. cost counts what that takes.
func (r *Router) CalendarUse(ctx context.Context, tenant, name string, cost *Budget) (Use, error) {
	return r.use(ctx, tenant, named{calendar: name}, cost)
}

// ChannelUse asks every partition who names a channel. cost counts what that takes.
func (r *Router) ChannelUse(ctx context.Context, tenant, name string, cost *Budget) (Use, error) {
	return r.use(ctx, tenant, named{channel: name}, cost)
}

func (r *Router) use(ctx context.Context, tenant string, name named, cost *Budget) (sum Use, err error) {
	all := make([]Use, r.partitions)
	cut := cutShort{began: time.Now()}
	defer cut.charge(cost)
	err = r.each(ctx, func(ctx context.Context, p int32) (err error) {
		return r.ask(ctx, p, SearchTimeout,
			func() error { all[p], err = use(ctx, r.own, p, tenant, name, cost); return err },
			func(addr string) error {
				err = cut.asking(ctx, ctx, func(ctx context.Context) (err error) {
					all[p], err = r.peer.use(ctx, addr, p, tenant, name)
					return err
				})
				cost.used(all[p].Visited, all[p].Spent)
				return err
			})
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
func use(ctx context.Context, o Owner, partition int32, tenant string, name named, cost *Budget) (u Use, err error) {
	turns := scan{ctx: ctx, tenant: tenant, budget: cost}
	defer turns.end()
	rows := Query{Tenant: name.tenant()}
	after, row := trigger.Key(""), 0 // row: triggers of others since the last of that tenant
	if rows.Tenant != "" {
		after = rows.firstKey("")
	}
	for beyond := trigger.Key(""); ; after, beyond, row = beyond, "", 0 {
		turns.end() // of the scan before: the next may wait for its read barrier, and others compute meanwhile
		err = o.Scan(ctx, partition, after, func(st *trigger.State) bool {
			if !turns.visit(1) {
				return false
			}
			if rows.Tenant != "" && !rows.inTenant(st.Key) {
				if row++; row > longRow {
					beyond = behindTenant(st.Key.Tenant())
				}
				return beyond == "" && rows.mayFollow(st.Key)
			}
			row = 0
			if st.Status.Finished() || !name.by(st) {
				return true
			}
			if u.Triggers++; len(u.IDs) < namedAtMost && st.Key.Tenant() == tenant {
				u.IDs = append(u.IDs, st.Key.ID())
			}
			return true
		})
		if err = errors.Join(err, turns.err); err != nil || beyond == "" {
			return u, err
		}
	}
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
	cost := &Budget{}
	u, err := use(r.Context(), h.own, partition, q.Get("tenant"), named{q.Get("calendar"), q.Get("channel")}, cost)
	if err != nil {
		return err
	}
	u.Visited, u.Spent = cost.Visited(), time.Duration(cost.spent.Load())
	return json.NewEncoder(w).Encode(u)
}
