package waterclock

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// When says when a trigger fires. It has exactly one of Delay, FireAt and Recurrence (Include
// alone is a recurrence too). In, At, AtLocal and Every create one.
//
// Durations are text, as everywhere in Waterclock: 7m, 1h30m, 2d, 1w, 500ms, PT7M. Text converts
// a time.Duration. Instants are in RFC 3339, or a local date-time with Timezone.
type When struct {
	Delay      string         `json:"delay,omitempty"`      // counts from the broker's append of the command
	FireAt     string         `json:"fire_at,omitempty"`    // an instant, or a wall time with Timezone
	Recurrence string         `json:"recurrence,omitempty"` // RRULE:…, FREQ=…, cron:…, every:…
	Start      string         `json:"start,omitempty"`
	Timezone   string         `json:"timezone,omitempty"` // an IANA name
	Until      string         `json:"until,omitempty"`
	Count      int            `json:"count,omitempty"`
	Include    []string       `json:"include,omitempty"`
	Exclude    []string       `json:"exclude,omitempty"` // a date without a time excludes the whole day
	DST        *DST           `json:"dst,omitempty"`
	Calendars  *CalendarNames `json:"calendars,omitempty"`
}

// DST says how to handle wall times that do not exist, or that exist twice.
type DST struct {
	Gap     string `json:"gap,omitempty"`     // shift (the default), skip
	Overlap string `json:"overlap,omitempty"` // first (the default), second, both
}

// CalendarNames names calendars whose dates are skipped, or moved.
type CalendarNames struct {
	Names []string `json:"names"`
	On    string   `json:"on,omitempty"` // skip (the default), next_business_day, previous_business_day
}

// In fires this long after the append of the command.
func In(d time.Duration) When { return When{Delay: Text(d)} }

// At fires at an instant.
func At(t time.Time) When { return When{FireAt: t.UTC().Format(time.RFC3339Nano)} }

// AtLocal fires at a wall time, such as 2026-11-20T09:00, in an IANA zone.
func AtLocal(wall, zone string) When { return When{FireAt: wall, Timezone: zone} }

// Every fires by a recurrence in an IANA zone: "cron:0 9 * * 1-5", "FREQ=DAILY", "every:15m" and
// so on.
func Every(rule, zone string) When { return When{Recurrence: rule, Timezone: zone} }

// Text formats d as Waterclock writes durations: whole milliseconds, rounded up, in the largest
// unit that needs no fraction.
func Text(d time.Duration) string {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	for _, u := range []struct {
		ms   int64
		name string
	}{{24 * 3600_000, "d"}, {3600_000, "h"}, {60_000, "m"}, {1000, "s"}} {
		if ms != 0 && ms%u.ms == 0 {
			return strconv.FormatInt(ms/u.ms, 10) + u.name
		}
	}
	if ms == 0 {
		return "0s"
	}
	return strconv.FormatInt(ms, 10) + "ms"
}

// Register holds the fields of a trigger. Only When is required.
type Register struct {
	When

	Channel       string            `json:"channel,omitempty"` // default: "default", or "webhook" with a Callback
	UserID        string            `json:"user_id,omitempty"`
	Payload       any               `json:"-"` // encoded as JSON; a json.RawMessage is sent byte for byte
	PayloadBytes  []byte            `json:"payload_base64,omitempty"`
	TargetKey     string            `json:"target_key,omitempty"` // record key of the due event
	Headers       map[string]string `json:"headers,omitempty"`    // copied to the due event
	Tags          map[string]string `json:"tags,omitempty"`
	Priority      string            `json:"priority,omitempty"` // high, normal (the default), low
	Jitter        string            `json:"jitter,omitempty"`
	ExpiresAfter  string            `json:"expires_after,omitempty"`
	Misfire       string            `json:"misfire,omitempty"` // fire_once (the default), fire_all, skip
	FollowUser    bool              `json:"follow_user,omitempty"`
	Callback      *Callback         `json:"callback,omitempty"`
	Escalation    []Step            `json:"escalation,omitempty"` // until somebody reacts
	CorrelationID string            `json:"correlation_id,omitempty"`

	// Extra holds fields that this version does not know, by name.
	Extra map[string]any `json:"-"`
}

// Callback configures a webhook.
type Callback struct {
	URL     string   `json:"url"`
	Timeout string   `json:"timeout,omitempty"`
	Retry   []string `json:"retry,omitempty"` // waits between attempts
	Body    string   `json:"body,omitempty"`  // envelope (the default), raw
	Recheck bool     `json:"recheck,omitempty"`
}

// Step is a step of an escalation.
type Step struct {
	After   string `json:"after,omitempty"` // since the step before; the first step has none
	Channel string `json:"channel"`
}

// fields builds the JSON object. Its closing brace is missing, so that more fields can follow.
type fields struct {
	b   []byte
	err error
}

// marshal encodes v as JSON without escaping <, > and &.
func marshal(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok { // byte for byte; an encoder would compact it
		if !json.Valid(raw) {
			return nil, refuse("invalid", "payload", "the json.RawMessage is not JSON")
		}
		return raw, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, refuse("invalid", "", "it cannot be encoded as JSON: "+err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func (f *fields) add(name string, v any) {
	raw, err := marshal(v)
	if err != nil {
		f.fail(name, err)
		return
	}
	if len(f.b) > 1 {
		f.b = append(f.b, ',')
	}
	quoted, _ := marshal(name)
	f.b = append(append(append(f.b, quoted...), ':'), raw...)
}

// fail stores the first error and the field that it is about.
func (f *fields) fail(name string, err error) {
	if f.err == nil {
		f.err = err
		if e := ErrorOf(err); e != nil && e.Field == "" {
			e.Field = name
		}
	}
}

// text adds a string, unless it is empty.
func (f *fields) text(name, v string) {
	if v != "" {
		f.add(name, v)
	}
}

// flag adds true.
func (f *fields) flag(name string, v bool) {
	if v {
		f.add(name, v)
	}
}

// object starts with the fields of v.
func object(v any) *fields {
	f := &fields{}
	raw, err := marshal(v)
	if err != nil {
		f.fail("", err)
		raw = []byte("{}")
	}
	f.b = raw[: len(raw)-1 : len(raw)-1]
	return f
}

func empty() *fields { return &fields{b: []byte{'{'}} }

func (f *fields) bytes() ([]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	return append(f.b[:len(f.b):len(f.b)], '}'), nil
}

// fields returns the fields of a register, without conditions.
func (r *Register) fields() *fields {
	f := object(r)
	if r.Payload != nil {
		f.add("payload", r.Payload)
	}
	for name, v := range r.Extra {
		f.add(name, v)
	}
	return f
}
