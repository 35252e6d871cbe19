package waterclock

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Registered is the result of Schedule.
type Registered struct {
	TriggerID string    `json:"trigger_id"`
	FireAt    time.Time `json:"fire_at,omitzero"`
	Revision  int64     `json:"revision,omitempty"`
	State     string    `json:"state,omitempty"` // set if a repeat finds that the trigger will not fire any more
	Notes     []string  `json:"notes,omitempty"` // what may surprise the caller

	Created bool `json:"created"` // the trigger is new; false for a repeat and for a replacement
	Decided bool `json:"decided"` // false: durable, but the engine has not decided yet
}

// Changed is the result of the other writes.
type Changed struct {
	TriggerID  string    `json:"trigger_id"`
	State      string    `json:"state,omitempty"`
	Revision   int64     `json:"revision,omitempty"`
	FireAt     time.Time `json:"fire_at,omitzero"`      // nominal instant of the next occurrence, or of the last one
	NextFireAt time.Time `json:"next_fire_at,omitzero"` // includes jitter and snoozes
	LocalTime  string    `json:"local_time,omitempty"`
	Notes      []string  `json:"notes,omitempty"`

	Decided bool `json:"decided"` // false: durable, but the engine has not decided yet
}

// Snooze has either For, a duration, or Until, an instant or a wall time in the trigger's zone.
type Snooze struct {
	For   string `json:"for,omitempty"`
	Until string `json:"until,omitempty"`
}

// Schedule creates or replaces a trigger. Without an id the server generates one. Then the call
// also gets an idempotency key, so that it is safe to repeat.
func (c *Client) Schedule(ctx context.Context, id string, r Register, opts ...Option) (*Registered, error) {
	o := optionsOf(opts)
	if err := o.checkHTTP(); err != nil {
		return nil, err
	}
	if err := headerText("idempotency_key", o.idempotencyKey); err != nil {
		return nil, err
	}
	f := r.fields()
	f.text("correlation_id", o.correlationID)
	f.text("note", o.note)
	body, err := f.bytes()
	if err != nil {
		return nil, err
	}
	req := &request{
		method: http.MethodPut, path: []string{"v1", "triggers", id}, body: body, kind: "application/json",
		repeat: safely, write: true,
	}
	if id == "" {
		req.method, req.path = http.MethodPost, req.path[:2]
		if o.idempotencyKey == "" && r.Extra["idempotency_key"] == nil {
			o.idempotencyKey = newKey()
		}
	} else if err := checkID(id); err != nil {
		return nil, err
	}
	o.conditions(req)
	answer := &Registered{}
	a, err := c.call(ctx, req, answer)
	if err != nil {
		return nil, err
	}
	answer.Created, answer.Decided = a.status == http.StatusCreated, a.status != http.StatusAccepted
	return answer, nil
}

// newKey generates an idempotency key with 130 random bits.
func newKey() string { return "go-" + rand.Text() }

// Cancel ends a trigger. An error of type AlreadyFired says that it is too late. A second Cancel
// succeeds.
func (c *Client) Cancel(ctx context.Context, id string, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodDelete, id, "", nil, safely, opts)
}

// Reschedule replaces all of when the trigger fires, and nothing else: what w does not name is not
// kept. A pause stays in force. To change a part of it, use Update.
func (c *Client) Reschedule(ctx context.Context, id string, w When, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPatch, id, "", replacement(w), never, opts)
}

// timeFields are the fields that a merge patch must remove unless they are given.
var timeFields = []string{
	"delay", "fire_at", "recurrence", "start", "timezone", "until", "count", "include", "exclude", "dst", "calendars",
}

// replacement returns a merge patch after which the time is w alone.
func replacement(w When) *fields {
	f := object(w)
	var given map[string]json.RawMessage
	_ = json.Unmarshal(append(bytes.Clone(f.b), '}'), &given) // it was encoded just now
	for _, name := range timeFields {
		if _, ok := given[name]; !ok {
			f.add(name, nil)
		}
	}
	return f
}

// Update applies a merge patch (RFC 7396). patch may be any value that encodes to a JSON object.
func (c *Client) Update(ctx context.Context, id string, patch any, opts ...Option) (*Changed, error) {
	f := object(patch)
	if f.err == nil && f.b[0] != '{' {
		return nil, refuse("invalid", "patch", "a patch must be a JSON object")
	}
	return c.change(ctx, http.MethodPatch, id, "", f, never, opts)
}

// Snooze moves a one-shot to a later time, and adds an occurrence to a series.
func (c *Client) Snooze(ctx context.Context, id string, s Snooze, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPost, id, ":snooze", object(s), never, opts)
}

// Skip leaves out one occurrence of a series: a date, a wall time or an instant. "" means the
// next one.
func (c *Client) Skip(ctx context.Context, id, occurrence string, opts ...Option) (*Changed, error) {
	f := empty()
	f.text("occurrence", occurrence)
	return c.change(ctx, http.MethodPost, id, ":skip", f, never, opts)
}

// Pause stops occurrences until Resume. The note may be empty, as with Note.
func (c *Client) Pause(ctx context.Context, id, note string, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPost, id, ":pause", empty(), safely, withNote(opts, note))
}

// Resume ends a pause. The misfire policy decides about the missed occurrences.
func (c *Client) Resume(ctx context.Context, id, note string, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPost, id, ":resume", empty(), safely, withNote(opts, note))
}

// Run fires the trigger once now, in addition to its schedule. The client never repeats it,
// because the second request would fire a second time.
func (c *Client) Run(ctx context.Context, id string, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPost, id, ":run", empty(), unconditionally, opts)
}

// Rezone moves a trigger with wall times to another zone.
func (c *Client) Rezone(ctx context.Context, id, zone string, opts ...Option) (*Changed, error) {
	f := empty()
	f.add("timezone", zone)
	return c.change(ctx, http.MethodPost, id, ":rezone", f, safely, opts)
}

// Ack says that the user reacted to an occurrence. "" means whatever is in flight. That one the
// client never repeats, because the second request may be about the next occurrence.
func (c *Client) Ack(ctx context.Context, id, occurrence string, opts ...Option) (*Changed, error) {
	f, repeat := empty(), unconditionally
	if occurrence != "" {
		f.text("occurrence", occurrence)
		repeat = safely
	}
	return c.change(ctx, http.MethodPost, id, ":ack", f, repeat, opts)
}

// Erase ends a trigger and forgets its content: state and history drop it at once, the copies in
// topics when they are compacted or expire.
func (c *Client) Erase(ctx context.Context, id string, opts ...Option) (*Changed, error) {
	return c.change(ctx, http.MethodPost, id, ":erase", empty(), safely, opts)
}

// change sends every write except Schedule. A write that is not safe to repeat by itself becomes
// safe with a revision.
func (c *Client) change(ctx context.Context, method, id, verb string, f *fields, r repeatable, opts []Option) (*Changed,
	error,
) {
	o := optionsOf(opts)
	switch {
	case o.idempotencyKey != "":
		return nil, refuse("invalid", "idempotency_key", "a key is only for Schedule; here IfRevision makes a "+
			"repeat safe")
	case o.ifAbsent:
		return nil, refuse("invalid", "if_absent", "it is only for Schedule")
	}
	if err := o.checkHTTP(); err != nil {
		return nil, err
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	req := &request{method: method, path: []string{"v1", "triggers", id}, verb: verb, repeat: r, write: true}
	if r == never {
		req.repeat = ifConditional(o)
	}
	if f != nil {
		f.text("correlation_id", o.correlationID)
		f.text("note", o.note)
		body, err := f.bytes()
		if err != nil {
			return nil, err
		}
		req.body, req.kind = body, "application/json"
		if method == http.MethodPatch {
			req.kind = "application/merge-patch+json"
		}
	} else if o.correlationID != "" {
		return nil, refuse("invalid", "correlation_id", "a cancel over HTTP does not take it")
	} else if o.note != "" {
		req.query = url.Values{"note": {o.note}}
	}
	o.conditions(req)
	answer := &Changed{}
	a, err := c.call(ctx, req, answer)
	if err != nil {
		return nil, err
	}
	answer.Decided = a.status != http.StatusAccepted
	return answer, nil
}
