package peer

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// addTo and queryFrom spell a Query as parameters and back.
func (q *Query) addTo(v url.Values) {
	v.Set("tenant", q.Tenant)
	v.Set("user", q.User)
	v.Set("states", strconv.Itoa(int(q.States)))
	v.Set("channel", q.Channel)
	for _, t := range q.Tags {
		v.Add("tag", t.Key+":"+t.Value)
	}
	v.Set("from", strconv.FormatInt(int64(q.From), 10))
	v.Set("to", strconv.FormatInt(int64(q.To), 10))
	v.Set("after_due", strconv.FormatInt(int64(q.After.Due), 10))
	v.Set("after_key", string(q.After.Key))
	v.Set("limit", strconv.Itoa(q.Limit))
	v.Set("budget", strconv.Itoa(q.Budget))
	v.Set("bytes", strconv.FormatInt(q.Bytes, 10))
	v.Set("time", strconv.FormatInt(int64(q.Time), 10))
	if q.Prefix != "" {
		v.Set("prefix", q.Prefix)
	}
	if q.Stale {
		v.Set("stale", "1") // an instance of before takes its read barrier
	}
}

func queryFrom(v url.Values) (Query, error) {
	var errs []error
	number := func(name string) int64 {
		n, err := strconv.ParseInt(v.Get(name), 10, 64)
		errs = append(errs, err)
		return n
	}
	q := Query{
		Tenant: v.Get("tenant"), User: v.Get("user"), Channel: v.Get("channel"), States: StateSet(number("states")),
		From: trigger.Instant(number("from")), To: trigger.Instant(number("to")),
		After:  UserCursor{trigger.Instant(number("after_due")), trigger.Key(v.Get("after_key"))},
		Prefix: v.Get("prefix"), Stale: v.Has("stale"),
		Limit: int(number("limit")), Budget: int(number("budget")), Cost: &Budget{},
	}
	if v.Has("bytes") { // an instance of before bounds none
		q.Bytes = number("bytes")
	}
	if v.Has("time") { // nor time
		q.Time = time.Duration(number("time"))
	}
	for _, t := range v["tag"] {
		key, value, _ := strings.Cut(t, ":")
		q.Tags = append(q.Tags, trigger.Tag{Key: key, Value: value})
	}
	return q, errors.Join(errs...)
}

// decisionWire is the answer to a Question as JSON, the state as topics.AppendState
// writes it.
type decisionWire struct {
	Answered bool               `json:"answered,omitempty"`
	OK       bool               `json:"ok,omitempty"`
	Key      string             `json:"key,omitempty"`
	State    []byte             `json:"state,omitempty"`
	Rejected *rejectedWire      `json:"rejected,omitempty"`
	Facts    []trigger.FactType `json:"facts,omitempty"`
	Behind   int64              `json:"behind_ms,omitempty"`
}

type rejectedWire struct {
	Code  trigger.Code `json:"code"`
	Field string       `json:"field,omitempty"`
	Msg   string       `json:"msg,omitempty"`
}

func wireDecision(a *Question) (w decisionWire, err error) {
	d := &a.Decision
	w.Answered, w.OK, w.Facts, w.Behind = a.Answered, a.Known, d.Facts, d.Behind.Milliseconds()
	if d.State != nil {
		w.Key = string(d.State.Key)
		if w.State, err = topics.AppendState(nil, d.State); err != nil {
			return w, err
		}
	}
	if e := d.Rejected; e != nil {
		w.Rejected = &rejectedWire{e.Code, e.Field, e.Msg}
	}
	return w, nil
}

func (w *decisionWire) decision() (d Decision, err error) {
	d.Facts, d.Behind = w.Facts, time.Duration(w.Behind)*time.Millisecond
	if w.State != nil {
		if d.State, err = topics.DecodeState(trigger.Key(w.Key), w.State); err != nil {
			return d, err
		}
	}
	if e := w.Rejected; e != nil {
		d.Rejected = &trigger.Error{Code: e.Code, Field: e.Field, Msg: e.Msg}
	}
	return d, nil
}
