package calendar

import (
	"encoding/json"
	"errors"
)

// PreviewRequest is the body of POST /v1/preview (docs/api.md). Texts
// that may also be JSON numbers (fire_at, delay, after) are kept as written.
type PreviewRequest struct {
	ID         json.RawMessage
	FireAt     string
	Recurrence string
	Delay      string
	Start      string
	Timezone   string
	Include    []string
	Exclude    []string
	Until      string
	Count      int
	DST        DST
	Calendars  *CalendarRule
	After      string
	N          int

	given map[string]bool // which fields the body has
}

// PreviewResponse is the answer.
type PreviewResponse struct {
	ID          json.RawMessage     `json:"id,omitempty"`
	Occurrences []PreviewOccurrence `json:"occurrences"`

	rule         *Rule   // of a recurrence; what people are told beside: Words, Rows
	at           []int64 // of each occurrence
	after, until int64   // what was looked at
}

// PreviewOccurrence is one line of the answer: the instant in UTC, what
// clocks in the zone show then, and what happened to the wall time, if anything.
type PreviewOccurrence struct {
	At    string `json:"at"`
	Local string `json:"local"`
	Note  string `json:"note,omitempty"`
}

const previewDefaultN = 10

// PreviewMaxN is the most occurrences that one question may ask for.
const PreviewMaxN = 10_000

// MaxCalendars is how many calendars one rule may name.
const MaxCalendars = 16

// CalendarSource finds a named holiday calendar.
type CalendarSource func(name string) (DateSet, bool)

// Preview answers a body at a given now (unix ms). It refuses what has no
// meaning, and applies no tenant limits; times may be past. The response
// carries the body's id also beside an error.
func Preview(zs *Zones, body []byte, now int64) (PreviewResponse, *Error) {
	return PreviewWith(zs, nil, body, now)
}

// PreviewWith is Preview with a source of named calendars.
func PreviewWith(zs *Zones, calendars CalendarSource, body []byte, now int64) (PreviewResponse, *Error) {
	resp := PreviewResponse{Occurrences: []PreviewOccurrence{}}
	req, err := parsePreview(body, calendars)
	resp.ID = req.ID
	if err == nil {
		err = req.answer(zs, now, &resp)
	}
	if err == nil {
		return resp, nil
	}
	var e *Error
	if !errors.As(err, &e) {
		e = fail(CodeInvalid, "", "%v", err)
	}
	return PreviewResponse{ID: resp.ID}, e
}

// answer fills the response. `after` is the clock of the question: a rule
// without start begins there, a delay counts from there.
func (q *PreviewRequest) answer(zs *Zones, now int64, resp *PreviewResponse) error {
	if err := q.checkFields(); err != nil {
		return err
	}
	after, err := q.after(zs, now)
	if err != nil {
		return err
	}
	if !q.recurs() {
		return q.answerOnce(zs, after, resp)
	}
	start := q.Start
	if q.given["fire_at"] {
		start = q.FireAt
	}
	r, err := Compile(zs, Spec{
		Recurrence: q.Recurrence, Start: start, Zone: q.Timezone,
		Include: q.Include, Exclude: q.Exclude, Until: q.Until, Count: q.Count,
		DST: q.DST, Calendars: q.Calendars, Append: after, Limits: Limits{}.Preview(),
	})
	if err != nil {
		return err
	}
	list, err := r.Between(after, maxInstant, q.N)
	if n := len(list); n > 0 && r.countedTo != 0 && list[n-1].At > r.countedTo {
		return fail(CodeInvalidRule, "recurrence",
			"COUNT overflows: no more than %d occurrences are counted; ask for an earlier after", countSteps)
	}
	for _, o := range list {
		resp.add(r.zone, o)
	}
	resp.rule, resp.after, resp.until = r, after, maxInstant
	if len(list) == q.N {
		resp.until = list[q.N-1].At
	}
	return err
}

func (r *PreviewResponse) add(z *Zone, o Occurrence) {
	r.Occurrences = append(r.Occurrences, PreviewOccurrence{At: utcString(o.At), Local: z.format(o.At), Note: o.Note})
	r.at = append(r.at, o.At)
}

// answerOnce previews a one-shot. An instant that is past is shown all the
// same, unless the body itself says after when.
func (q *PreviewRequest) answerOnce(zs *Zones, after int64, resp *PreviewResponse) error {
	name := q.Timezone
	if name == "" {
		name = "UTC"
	}
	z, err := zs.Lookup(name)
	if err != nil {
		return err
	}
	o := Occurrence{Elapsed: true}
	switch {
	case q.given["delay"]:
		d, err := ParseDuration(q.Delay)
		if err != nil {
			return in("delay", err)
		}
		o.At = after + d.Milliseconds()
		resp.add(z, o)
		return nil
	case isInstant(q.FireAt):
		if o.At, err = ParseInstant(q.FireAt); err != nil {
			return in("fire_at", err)
		}
	case q.Timezone == "":
		if _, err := ParseWall(q.FireAt); err != nil {
			return in("fire_at", err)
		}
		return fail(CodeInvalid, "timezone", "a local fire_at needs a timezone; write one, or add an offset or Z")
	default:
		if o, err = ResolveAt(zs, q.FireAt, name, q.DST); err != nil {
			return err
		}
	}
	if !q.given["after"] || o.At > after {
		resp.add(z, o)
	}
	return nil
}

// recurs tells a recurrence from a one-shot; dates in include alone recur too.
func (q *PreviewRequest) recurs() bool {
	return q.given["recurrence"] || q.given["include"] && !q.given["delay"] && !q.given["fire_at"]
}

// checkFields finds fields that exclude each other.
func (q *PreviewRequest) checkFields() error {
	has := func(f string) bool { return q.given[f] }
	switch {
	case has("timezone") && q.Timezone == "":
		return fail(CodeUnknownZone, "timezone",
			"is empty; leave it out for UTC, or name a zone such as America/New_York")
	case !has("delay") && !has("fire_at") && !has("recurrence") && !has("include"):
		return fail(CodeConflictingTime, "recurrence",
			"the time is missing; write one of fire_at, recurrence and delay")
	case has("delay") && (has("fire_at") || has("recurrence") || has("include")):
		return fail(CodeConflictingTime, "delay",
			"delay does not go with fire_at, recurrence or include; leave out delay or the others")
	case has("fire_at") && has("start"):
		return fail(CodeConflictingTime, "start", "fire_at is the start of a recurrence; leave out fire_at or start")
	case has("fire_at") && has("include") && !has("recurrence"):
		return fail(CodeConflictingTime, "fire_at", "fire_at does not go with include; list all dates in include")
	}
	if q.recurs() {
		return nil
	}
	for _, f := range []string{"start", "exclude", "until", "count", "calendars"} {
		if has(f) {
			return fail(CodeConflictingTime, f, "%s needs a recurrence", f)
		}
	}
	return nil
}

// after reads the exclusive bound; a local one is read in the timezone.
func (q *PreviewRequest) after(zs *Zones, now int64) (int64, error) {
	if !q.given["after"] {
		return now, nil
	}
	w, err := parseWhen(q.After)
	if err != nil {
		return 0, in("after", err)
	}
	if w.kind == isAt {
		return w.at, nil
	}
	if w.kind == isDay {
		return 0, fail(CodeInvalid, "after", "%s is a bare date; write %sT00:00:00Z", clip(q.After), q.After)
	}
	name := q.Timezone
	if name == "" {
		name = "UTC"
	}
	z, err := zs.Lookup(name)
	if err != nil {
		return 0, err
	}
	return z.ResolveFirst(w.wall), nil
}
