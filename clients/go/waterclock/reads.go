package waterclock

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Trigger is the current state of a trigger.
type Trigger struct {
	TriggerID  string    `json:"trigger_id"`
	Tenant     string    `json:"tenant,omitempty"`
	State      string    `json:"state"` // PENDING, PAUSED, IN_FLIGHT, FIRED, FAILED, CANCELLED, EXPIRED
	Revision   int64     `json:"revision"`
	NextFireAt time.Time `json:"next_fire_at,omitzero"` // includes jitter and snoozes
	FireAt     time.Time `json:"fire_at,omitzero"`      // nominal instant of the next occurrence, or of the last one
	LocalTime  string    `json:"local_time,omitempty"`
	Attempt    int       `json:"attempt"`

	Channel       string            `json:"channel,omitempty"`
	UserID        string            `json:"user_id,omitempty"`
	Delay         string            `json:"delay,omitempty"`
	Recurrence    string            `json:"recurrence,omitempty"`
	Start         string            `json:"start,omitempty"`
	Timezone      string            `json:"timezone,omitempty"`
	Until         string            `json:"until,omitempty"`
	Count         int               `json:"count,omitempty"`
	Include       []string          `json:"include,omitempty"`
	Exclude       []string          `json:"exclude,omitempty"`
	Skipped       []string          `json:"skipped,omitempty"`
	DST           *DST              `json:"dst,omitempty"`
	Calendars     *CalendarNames    `json:"calendars,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBytes  []byte            `json:"payload_base64,omitempty"` // a payload that is not JSON
	TargetKey     string            `json:"target_key,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Priority      string            `json:"priority,omitempty"`
	Jitter        string            `json:"jitter,omitempty"`
	ExpiresAfter  string            `json:"expires_after,omitempty"`
	Misfire       string            `json:"misfire,omitempty"`
	FollowUser    bool              `json:"follow_user,omitempty"`
	Callback      *Callback         `json:"callback,omitempty"`
	Escalation    []Step            `json:"escalation,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	Note          string            `json:"note,omitempty"`
	TZData        string            `json:"tzdata,omitempty"`
	Live          []Live            `json:"live,omitempty"`

	LastFiredAt time.Time `json:"last_fired_at,omitzero"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at,omitzero"`
	ForgetAt    time.Time `json:"forget_at,omitzero"` // how long a finished trigger stays known

	// Raw is the trigger as the server wrote it, with fields that this version does not know.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes a trigger and keeps its text.
func (t *Trigger) UnmarshalJSON(b []byte) error {
	type plain Trigger
	t.Raw = bytes.Clone(b)
	return json.Unmarshal(b, (*plain)(t))
}

// Live is an occurrence that is snoozed, in flight or waiting for a retry.
type Live struct {
	Kind       string    `json:"kind"` // snoozed, in_flight, retry, run_now
	Occurrence string    `json:"occurrence"`
	At         time.Time `json:"at"`
	Attempt    int       `json:"attempt"`
	Step       int       `json:"step,omitempty"`        // of its escalation: the last one that went out
	NextStepAt time.Time `json:"next_step_at,omitzero"` // when the next step goes out
}

// Page is one page of a list. A page may have few items, or none, and still have a NextCursor.
type Page[T any] struct {
	Items      []*T   `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Filter selects triggers. An empty Filter selects all.
type Filter struct {
	State    []string
	UserID   string // sorts the list by next due time instead of by id
	Channel  string
	Tags     map[string]string
	From, To time.Time // due at or after From, and before To
	Cursor   string
	Limit    int // of one page
}

func (f *Filter) query() url.Values {
	q := url.Values{}
	set := func(name, v string) {
		if v != "" {
			q.Set(name, v)
		}
	}
	set("state", strings.Join(f.State, ","))
	set("user_id", f.UserID)
	set("channel", f.Channel)
	names := make([]string, 0, len(f.Tags))
	for name := range f.Tags {
		names = append(names, name)
	}
	slices.Sort(names) // a cursor is only valid for the same query string
	for _, name := range names {
		q.Add("tag", name+":"+f.Tags[name])
	}
	set("from", instant(f.From))
	set("to", instant(f.To))
	page(q, f.Cursor, f.Limit)
	return q
}

func page(q url.Values, cursor string, limit int) {
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
}

func read[T any](ctx context.Context, c *Client, q url.Values, path ...string) (*T, error) {
	to := new(T)
	_, err := c.call(ctx, &request{method: http.MethodGet, path: path, query: q, repeat: safely}, to)
	if err != nil {
		return nil, err
	}
	return to, nil
}

// items reads a list without pages.
func items[T any](ctx context.Context, c *Client, q url.Values, path ...string) ([]T, error) {
	list, err := read[struct{ Items []T }](ctx, c, q, path...)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Get reads a trigger. For a finished trigger it returns what is still stored.
func (c *Client) Get(ctx context.Context, id string) (*Trigger, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return read[Trigger](ctx, c, nil, "v1", "triggers", id)
}

// List reads one page.
func (c *Client) List(ctx context.Context, f Filter) (*Page[Trigger], error) {
	return read[Page[Trigger]](ctx, c, f.query(), "v1", "triggers")
}

// All reads all pages, each one when the loop needs it. It ends after an error.
func (c *Client) All(ctx context.Context, f Filter) iter.Seq2[*Trigger, error] {
	return pages(f.Cursor, func(cursor string) (*Page[Trigger], error) {
		f.Cursor = cursor
		return c.List(ctx, f)
	})
}

func pages[T any](cursor string, next func(cursor string) (*Page[T], error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for at := cursor; ; {
			p, err := next(at)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if at = p.NextCursor; at == "" {
				return
			}
		}
	}
}

// Event is a fact about a trigger.
type Event struct {
	EventID       string            `json:"event_id"`
	Type          string            `json:"type"`
	Trigger       string            `json:"trigger,omitempty"`
	Tenant        string            `json:"tenant,omitempty"`
	OccurredAt    time.Time         `json:"occurred_at,omitzero"`
	Revision      int64             `json:"revision,omitempty"`
	Seq           int64             `json:"seq,omitempty"`
	State         string            `json:"state,omitempty"`
	PreviousState string            `json:"previous_state,omitempty"`
	Channel       string            `json:"channel,omitempty"`
	UserID        string            `json:"user_id,omitempty"`
	Occurrence    string            `json:"occurrence,omitempty"`
	ScheduledAt   string            `json:"scheduled_at,omitempty"`
	LocalTime     string            `json:"local_time,omitempty"`
	Step          int               `json:"step,omitempty"`
	Attempt       int               `json:"attempt,omitempty"`
	LatenessMS    int64             `json:"lateness_ms,omitempty"`
	DueTopic      string            `json:"due_topic,omitempty"`
	DuePartition  int32             `json:"due_partition,omitempty"`
	Reason        string            `json:"reason,omitempty"`
	Detail        string            `json:"detail,omitempty"`
	Source        string            `json:"source,omitempty"`
	Actor         string            `json:"actor,omitempty"`
	CorrelationID string            `json:"correlation_id,omitempty"`
	Count         int64             `json:"count,omitempty"`
	First         string            `json:"first,omitempty"`
	Last          string            `json:"last,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBytes  []byte            `json:"payload_base64,omitempty"`

	// Raw is the event as the server wrote it, with fields that this version does not know.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes an event and keeps its text.
func (e *Event) UnmarshalJSON(b []byte) error {
	type plain Event
	e.Raw = bytes.Clone(b)
	return json.Unmarshal(b, (*plain)(e))
}

// Events reads one page of a trigger's events. The cursor "" starts at the first event. The limit
// 0 means the server's default.
func (c *Client) Events(ctx context.Context, id, cursor string, limit int) (*Page[Event], error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	q := url.Values{}
	page(q, cursor, limit)
	return read[Page[Event]](ctx, c, q, "v1", "triggers", id, "events")
}

// AllEvents reads all pages of a trigger's events. limit is the size of a page.
func (c *Client) AllEvents(ctx context.Context, id string, limit int) iter.Seq2[*Event, error] {
	return pages("", func(cursor string) (*Page[Event], error) { return c.Events(ctx, id, cursor, limit) })
}

// Occurrence is a future firing of a trigger.
type Occurrence struct {
	At         time.Time `json:"at"` // nominal instant, without jitter
	LocalTime  string    `json:"local_time,omitempty"`
	Occurrence string    `json:"occurrence"`     // its name, as in ce_id
	Note       string    `json:"note,omitempty"` // such as "gap: shifted 1h"
}

// Occurrences returns the next n occurrences.
func (c *Client) Occurrences(ctx context.Context, id string, n int) ([]Occurrence, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	return items[Occurrence](ctx, c, url.Values{"n": {strconv.Itoa(n)}}, "v1", "triggers", id, "occurrences")
}

// Preview asks when a trigger would fire, without registering it.
type Preview struct {
	When
	After string `json:"after,omitempty"` // exclusive; the default is now
	N     int    `json:"n,omitempty"`
}

// Previewed is one instant at which a Preview would fire.
type Previewed struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Note  string    `json:"note,omitempty"` // such as "gap: shifted 1h"
}

// Preview returns when a trigger would fire.
func (c *Client) Preview(ctx context.Context, p Preview) ([]Previewed, error) {
	body, err := object(p).bytes()
	if err != nil {
		return nil, err
	}
	var to struct{ Occurrences []Previewed }
	_, err = c.call(ctx, &request{
		method: http.MethodPost, path: []string{"v1", "preview"}, body: body, kind: "application/json", repeat: safely,
	}, &to)
	if err != nil {
		return nil, err
	}
	return to.Occurrences, nil
}

// Bucket is one period of the forecast.
type Bucket struct {
	At       time.Time      `json:"at"`
	Count    int            `json:"count"`
	Channels map[string]int `json:"channels,omitempty"`
}

// Upcoming counts what is due in each of the next n buckets.
func (c *Client) Upcoming(ctx context.Context, bucket time.Duration, n int) ([]Bucket, error) {
	q := url.Values{"bucket": {Text(bucket)}, "n": {strconv.Itoa(n)}}
	return items[Bucket](ctx, c, q, "v1", "upcoming")
}

// Partition is the status of a partition, for operators.
type Partition struct {
	Partition            int32     `json:"partition"`
	Owner                string    `json:"owner"`
	Term                 int64     `json:"term"`
	Ready                bool      `json:"ready"`
	CommandsOffset       int64     `json:"commands_offset"`
	CommandsLag          int64     `json:"commands_lag"`
	Pending              int64     `json:"pending"`
	PendingLimit         int64     `json:"pending_limit,omitempty"`
	Done                 int64     `json:"done"`
	FiredThrough         time.Time `json:"fired_through,omitzero"`
	OldestOverdueSeconds float64   `json:"oldest_overdue_seconds"`
	Refused              string    `json:"refused,omitempty"`
}

// Partitions returns the status of all partitions.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return items[Partition](ctx, c, nil, "v1", "partitions")
}

// Channel is a channel and its topic.
type Channel struct {
	Name       string `json:"name"`
	Topic      string `json:"topic"`
	Partitions int    `json:"partitions"`
	Removable  bool   `json:"removable"`
}

// Channels lists all channels.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	return items[Channel](ctx, c, nil, "v1", "channels")
}

// Endpoint is an origin that the callbacks of one tenant call, over all workers.
type Endpoint struct {
	Origin   string    `json:"origin"`
	Tenant   string    `json:"tenant"`
	State    string    `json:"state"` // of the breaker: closed, half_open, open
	InFlight int       `json:"in_flight"`
	OK       int64     `json:"ok"`                  // calls that it answered
	Failed   int64     `json:"failed"`              // time-outs, connection errors, 5xx, 408, 429
	LastCode string    `json:"last_code,omitempty"` // of the last call; "" if it was delivered
	Until    time.Time `json:"until,omitzero"`      // when an open breaker lets calls out again
	Workers  int       `json:"workers"`             // processes that know it
}

// Endpoints lists the origins of callbacks, the worst first. It is for operators.
func (c *Client) Endpoints(ctx context.Context) ([]Endpoint, error) {
	return items[Endpoint](ctx, c, nil, "v1", "endpoints")
}

// Calendar is a set of local dates that triggers skip or avoid.
type Calendar struct {
	Name   string   `json:"name"`
	Tenant string   `json:"tenant,omitempty"` // the tenant that owns it; "" if all tenants share it
	Dates  []string `json:"dates"`
}

// CalendarSummary is an entry in the list of calendars.
type CalendarSummary struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty"`
	Dates  int    `json:"dates"`
	First  string `json:"first,omitempty"`
	Last   string `json:"last,omitempty"`
}

// Calendars lists the calendars that the tenant's triggers can name.
func (c *Client) Calendars(ctx context.Context) ([]CalendarSummary, error) {
	return items[CalendarSummary](ctx, c, nil, "v1", "calendars")
}

// Calendar reads a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (*Calendar, error) {
	return c.calendar(ctx, http.MethodGet, name, nil)
}

// PutCalendar creates or replaces a calendar. The triggers that name it are replanned.
func (c *Client) PutCalendar(ctx context.Context, name string, dates ...string) (*Calendar, error) {
	f := empty()
	f.add("dates", append([]string{}, dates...))
	return c.calendar(ctx, http.MethodPut, name, f)
}

// DeleteCalendar deletes a calendar that no trigger names, and returns its last content.
func (c *Client) DeleteCalendar(ctx context.Context, name string) (*Calendar, error) {
	return c.calendar(ctx, http.MethodDelete, name, nil)
}

func (c *Client) calendar(ctx context.Context, method, name string, f *fields) (*Calendar, error) {
	if err := checkID(name); err != nil {
		ErrorOf(err).Code, ErrorOf(err).Field = "invalid", "name"
		return nil, err
	}
	r := &request{
		method: method, path: []string{"v1", "calendars", name}, repeat: safely, write: method != http.MethodGet,
	}
	if f != nil {
		body, err := f.bytes()
		if err != nil {
			return nil, err
		}
		r.body, r.kind = body, "application/json"
	}
	to := &Calendar{}
	if _, err := c.call(ctx, r, to); err != nil {
		return nil, err
	}
	return to, nil
}
