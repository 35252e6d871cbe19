package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// Triggers is a page of a list.
type Triggers struct {
	Items      []*Trigger `json:"items"`
	NextCursor string     `json:"next_cursor,omitempty" doc:"Absent on the last page. A short page may have one, too"`
}

func (t Triggers) appendJSON(b []byte) ([]byte, error) { return appendPage(b, t.Items, t.NextCursor) }

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
	page, q, err := s.list(r)
	if err != nil {
		return err
	}
	answer := Triggers{Items: make([]*Trigger, 0, len(page.Items)), NextCursor: s.cursors.next(q, page)}
	for _, f := range page.Items {
		answer.Items = append(answer.Items, triggerJSON(f.State))
	}
	return sendSized(w, http.StatusOK, answer, r.read.size())
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
	for _, name := range []string{"user_id", "channel", "from", "to"} {
		if v.Has(name) && v.Get(name) == "" { // an empty filter would list everything
			return nil, problem.BadParameter(name, name+" is empty: leave it out, or give it a value")
		}
	}
	limit, err := r.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return nil, err
	}
	q := &peer.Query{
		Tenant: r.who.Tenant, User: v.Get("user_id"), Channel: v.Get("channel"), Limit: limit,
		Budget: s.listBudget, Cost: r.read.cost,
	}
	for _, name := range []string{"state", "status"} { // the reminder routes call it so
		states, p := parseStates(name, v[name])
		if p != nil {
			return nil, p
		}
		q.States |= states
	}
	if q.Tags, err = parseTags(v["tag"]); err != nil {
		return nil, err
	}
	if q.From, err = instantParam(v, "from"); err != nil {
		return nil, err
	}
	if q.To, err = instantParam(v, "to"); err != nil {
		return nil, err
	}
	if text := v.Get("cursor"); text != "" {
		q.After, err = s.cursors.open(q, text)
	}
	return q, err
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
