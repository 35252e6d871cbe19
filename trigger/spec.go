package trigger

import (
	"slices"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// Spec is what a caller asked for: when, what, for whom, and what to do when things go wrong.
// It has no struct tags and no wire types: package topics encodes and decodes it. A Spec is
// immutable once it is in a State.
type Spec struct {
	When When

	Channel     string // "default" if the caller named none
	UserID      string
	Payload     []byte // as registered; may be empty
	ContentType string // of Payload: application/json, or application/octet-stream
	TargetKey   string // key of the due record; "" means the trigger key
	Headers     []Header
	Tags        []Tag // sorted by key
	Priority    Priority
	Jitter      time.Duration
	Expires     time.Duration // expires_after; 0 never
	Misfire     Misfire
	FollowUser  bool
	Callback    *Callback
	Escalation  []Step // the first is Channel's; empty: Channel alone

	CorrelationID string
	TraceParent   string // W3C traceparent of the command, passed on to due events
}

// When is the time part of a Spec. Kind says which one of Delay, FireAt, Local and Recurrence
// (with Include) is set.
type When struct {
	Kind WhenKind

	DelayText string // as written, for the content hash
	Delay     time.Duration
	FireAt    Instant // WhenInstant
	Local     string  // WhenLocal: 2026-11-20T09:00:00, without a zone

	Zone       string // IANA name; "" for instants and delays
	Recurrence string
	Start      string   // as written; Series.Start has the resolved one
	Include    []string // RDATE
	Exclude    []string // EXDATE
	Until      string
	Count      int
	DST        DST
	Calendars  *Calendars
}

// same reports whether both have the same values, spelled the same.
func (w *When) same(o *When) bool {
	return w.Zone == o.Zone && w.sameButZone(o)
}

func (w *When) sameButZone(o *When) bool {
	return w.Kind == o.Kind && w.DelayText == o.DelayText && w.FireAt == o.FireAt && w.Local == o.Local &&
		w.Recurrence == o.Recurrence && w.Start == o.Start && w.Until == o.Until && w.Count == o.Count &&
		w.DST == o.DST &&
		slices.Equal(w.Include, o.Include) && slices.Equal(w.Exclude, o.Exclude) && w.Calendars.same(o.Calendars)
}

// movesDays reports whether a calendar moves the rule's days; else one leaves days out, at most.
func (w *When) movesDays() bool {
	c := w.Calendars
	return c != nil && (c.On == calendar.OnNext || c.On == calendar.OnPrevious)
}

func (c *Calendars) same(o *Calendars) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.On == o.On && slices.Equal(c.Names, o.Names)
}

// WhenKind says which time field a caller used.
type WhenKind uint8

// The kinds of When.
const (
	WhenNone       WhenKind = iota
	WhenDelay               // counted from the command's first append
	WhenInstant             // an instant with an offset
	WhenLocal               // a wall time in Zone
	WhenRecurrence          // a rule, or a list of dates
)

// DST says what to do with wall times that do not exist or exist twice; ""
// is the default: shift, first.
type DST struct {
	Gap     string // shift, skip
	Overlap string // first, second, both
}

// Calendars names holiday sets and what happens on their days.
type Calendars struct {
	Names []string
	On    string // skip, next_business_day, previous_business_day
}

// Header is one of the user's own record headers.
type Header struct {
	Key   string
	Value []byte
}

// Tag is one of the user's labels.
type Tag struct{ Key, Value string }

// Priority orders what is due at the same time. The numbers are part of the
// due index's key order: lower fires first.
type Priority uint8

// The priorities.
const (
	High   Priority = 0
	Normal Priority = 1
	Low    Priority = 2
)

func (p Priority) String() string {
	switch p {
	case High:
		return "high"
	case Low:
		return "low"
	}
	return "normal"
}

// Misfire is the policy for occurrences that are later than misfire_after.
type Misfire uint8

// The misfire policies.
const (
	FireOnce Misfire = iota // only the latest missed one
	FireAll                 // all of them in order, at most 1,000
	SkipMissed
)

func (m Misfire) String() string {
	switch m {
	case FireAll:
		return "fire_all"
	case SkipMissed:
		return "skip"
	}
	return "fire_once"
}

// Callback is where channel webhook delivers.
type Callback struct {
	URL     string
	Timeout time.Duration
	Retry   []time.Duration // the waits between attempts; nil: the channel's profile
	Raw     bool            // the body is the payload itself, not {"triggerId","payload"}
	Recheck bool            // ask the owner before each request whether it still stands
}
