package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// Triggers is a page of a list.
type Triggers struct {
	Items      []*Trigger `json:"items"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"Absent on the last page. A short page may have one, too"`
	Read
}

// Read says how a list was read.
type Read struct {
	AsOf    string  `json:"as_of" format:"date-time" doc:"When the owners were asked. Without fresh=false the list has all that was acknowledged before"`
	Visited int64   `json:"looked_at" doc:"How many triggers were visited for this page: for operators of all tenants, for others those of the page"`
	Silent  []int32 `json:"silent_partitions" doc:"With fresh=false: partitions that did not answer, so that their triggers are missing; ask again from the first page"`
}

func (t Triggers) appendJSON(b []byte) ([]byte, error) {
	b, err := appendPage(b, t.Items, t.NextCursor)
	if err != nil {
		return nil, err
	}
	begin := len(b)
	if b, err = appendJSON(b, &t.Read); err == nil {
		b[begin-1], b = ',', append(b[:begin], b[begin+1:]...) // one object of both
	}
	return b, err
}

// sortNextFire is the value of sort.
const sortNextFire = "next_fire"

const (
	defaultPage = 100
	maxPage     = 1000
)

// triggerViews shows triggers, and when they will fire.
type triggerViews struct {
	lookup *lookup
	events *eventLog
	reads  *reads

	cursors    *cursorSeal
	listBudget int
	now        func() time.Time
	readWithin time.Duration
	router     *peer.Router
	timetable  func() *trigger.Timetable
}

// listTriggers lists triggers by next due time if a user is named, else by id.
func (s *triggerViews) listTriggers(w http.ResponseWriter, r *request) error {
	read := Read{AsOf: trigger.At(s.now()).String(), Silent: []int32{}}
	page, q, err := s.list(r)
	if err != nil {
		return err
	}
	read.Visited, read.Silent = r.visited(r.read.cost.Visited(), len(page.Items)), append(read.Silent, page.Silent...)
	answer := Triggers{
		Items: make([]*Trigger, 0, len(page.Items)), NextCursor: s.cursors.next(q, page), Read: read,
	}
	for _, f := range page.Items {
		answer.Items = append(answer.Items, triggerJSON(f.State, r.payloads()))
	}
	return sendSized(w, http.StatusOK, answer, r.read.size())
}

// visited is how many rows a read has visited. Those of all tenants are for who sees all tenants:
// others could find out by them when another tenant's triggers fire, and are told the rows they got.
func (r *request) visited(all int64, got int) int64 {
	if !r.who.May(auth.Operate) {
		return int64(got)
	}
	return all
}

func (s *triggerViews) list(r *request) (peer.Page, *peer.Query, error) {
	q, err := s.query(r)
	if err != nil {
		return peer.Page{}, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	var page peer.Page
	err = r.read.gather(ctx, func() (err error) {
		page, err = s.router.Find(ctx, *q)
		return err
	})
	return page, q, err
}

// query reads the parameters of a list.
func (s *triggerViews) query(r *request) (*peer.Query, error) {
	v := r.query
	if err := r.refuseEmpty("user_id", "channel", "from", "to", "key_prefix"); err != nil {
		return nil, err
	}
	of, err := r.listRange()
	if err != nil {
		return nil, err
	}
	q := &peer.Query{
		Tenant: r.who.Tenant, User: v.Get("user_id"), Channel: v.Get("channel"),
		Limit: of.limit, From: of.from, To: of.to,
		Budget: s.listBudget, Cost: r.read.cost, Prefix: v.Get("key_prefix"),
		Stale: r.stale(),
	}
	q.ByNextFire = v.Get("sort") == sortNextFire && q.User == "" // a user's list is always by due time
	for _, name := range []string{"state", "status"} {           // the reminder routes call it so
		states, p := parseStates(name, v[name])
		if p != nil {
			return nil, p
		}
		q.States |= states
	}
	if q.Tags, err = parseTags(v["tag"]); err != nil {
		return nil, err
	}
	if text := v.Get("cursor"); text != "" {
		q.After, err = s.cursors.open(q, text)
	}
	return q, err
}

// listRange is what every list takes: the length of a page, and a range of time.
type listRange struct {
	limit    int
	from, to trigger.Instant // 0: no bound
}

// listRange reads limit, from and to. A from after to is a mistake, not a question about nothing.
func (r *request) listRange() (l listRange, err error) {
	if l.limit, err = r.number("limit", defaultPage, 1, maxPage); err != nil {
		return l, err
	}
	if l.from, err = instantParam(r.query, "from"); err != nil {
		return l, err
	}
	if l.to, err = instantParam(r.query, "to"); err != nil {
		return l, err
	}
	if l.from != 0 && l.to != 0 && l.from > l.to {
		return l, problem.BadParameter("from", "from is after to: nothing lies between them")
	}
	return l, nil
}

// refuseEmpty refuses filters that are there without a value: they would narrow nothing, and list
// everything.
func (r *request) refuseEmpty(names ...string) error {
	for _, name := range names {
		if r.query.Has(name) && r.query.Get(name) == "" {
			return problem.BadParameter(name, name+" is empty: omit it, or give it a value")
		}
	}
	return nil
}

func instantParam(v url.Values, name string) (trigger.Instant, error) {
	text := v.Get(name)
	if text == "" {
		return 0, nil
	}
	ms, err := calendar.ParseInstant(text)
	if err != nil {
		return 0, problem.BadParameter(name, name+" is an instant such as 2026-11-20T14:00:00Z; encode a + as %2B")
	}
	if ms == 0 { // 0 would mean no bound; nothing fires within the millisecond between
		ms = -1
	}
	return trigger.Instant(ms), nil
}

// parseStates reads state=PENDING,PAUSED in either case; name is what the
// parameter is called.
func parseStates(name string, values []string) (peer.StateSet, *problem.Problem) {
	var set peer.StateSet
	for _, v := range values {
		for _, one := range strings.Split(v, ",") {
			st, ok := trigger.ParseStatus(strings.ToUpper(strings.TrimSpace(one)))
			if !ok || !peer.Shown.Has(st) {
				return 0, problem.BadParameter(name,
					name+" is one or more of PENDING, PAUSED, IN_FLIGHT, FIRED, FAILED, CANCELLED, EXPIRED")
			}
			set |= 1 << st
		}
	}
	return set, nil
}

// parseTags reads tag=name:value.
func parseTags(values []string) ([]trigger.Tag, error) {
	var tags []trigger.Tag
	for _, v := range values {
		key, value, ok := strings.Cut(v, ":")
		if !ok || key == "" {
			return nil, problem.BadParameter("tag", "write tag=name:value")
		}
		tags = append(tags, trigger.Tag{Key: key, Value: value})
	}
	return tags, nil
}
