package topics

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Bounds on time fields.
const (
	maxPast   = 366 * day       // fire_at: more than a year ago is refused as a mistake
	maxAhead  = 100 * 366 * day // fire_at: the horizon
	maxRule   = 512             // bytes of rule text
	maxDates  = 512             // include and exclude together
	maxCount  = 100_000
	maxZone   = 64
	zoneSlack = 26 * time.Hour // no zone's offset is larger; the zone is not resolved here
)

// when reads the time fields. Exactly one of delay, fire_at and recurrence must be given.
// fire_at beside recurrence is its start, and include alone counts as a recurrence.
func (d *draft) when() (w trigger.When) {
	recurring := d.seen.has(fRecurrence) || d.seen.has(fInclude)
	d.checkOneTime(recurring)
	w.DST = d.dst()
	w.Calendars = d.calendars()
	zone := d.zone()
	switch {
	case d.err != nil:
	case recurring:
		d.recurrence(&w, zone)
	case d.seen.has(fDelay):
		w.Kind, w.DelayText, w.Delay = trigger.WhenDelay, d.text[fDelay], d.duration(fDelay)
	default:
		d.fireAt(&w, zone)
	}
	return w
}

func (d *draft) checkOneTime(recurring bool) {
	delay, fireAt := d.seen.has(fDelay), d.seen.has(fFireAt)
	switch {
	case delay && fireAt:
		d.refuse(trigger.CodeConflictingTime, "fire_at", "delay does not go with fire_at: leave out one of them")
	case delay && recurring:
		d.refuse(trigger.CodeConflictingTime, "recurrence",
			"delay does not go with a recurrence: leave out one of them")
	case fireAt && d.seen.has(fInclude) && !d.seen.has(fRecurrence):
		d.refuse(trigger.CodeConflictingTime, "fire_at", "fire_at does not go with include: list all dates in include")
	case fireAt && d.seen.has(fStart):
		d.refuse(trigger.CodeConflictingTime, "start",
			"fire_at is the start of a recurrence: leave out fire_at or start")
	case !delay && !fireAt && !recurring:
		d.refuse(trigger.CodeConflictingTime, "fire_at", "give one of delay, fire_at and recurrence")
	}
	if extra := d.seen & setOf(fStart, fUntil, fCount, fExclude); extra != 0 && !recurring {
		d.refuse(trigger.CodeInvalid, extra.first().path(), fieldTable[extra.first()].name+" needs a recurrence")
	}
}

func (d *draft) fireAt(w *trigger.When, zone string) {
	at := d.moment(fFireAt)
	switch {
	case d.err != nil:
	case at.local == "":
		w.Kind, w.FireAt = trigger.WhenInstant, at.instant
		d.checkRange(fFireAt, at.instant)
		if w.Calendars != nil {
			d.refuse(trigger.CodeInvalid, "calendars", "calendars needs a recurrence")
		}
	case zone == "":
		d.refuse(trigger.CodeInvalid, "timezone", "a local fire_at needs a timezone: write one, or add an offset or Z")
	default:
		w.Kind, w.Local, w.Zone = trigger.WhenLocal, at.local, zone
		d.checkLocalRange(at.wall)
	}
}

// checkRange compares an instant with the command's append time.
func (d *draft) checkRange(f field, at trigger.Instant) {
	switch ahead := at.Sub(d.from.Append); {
	case d.err != nil:
	case at < d.from.Append && ahead < -maxPast:
		d.refuse(trigger.CodeInThePast, f.path(), fieldTable[f].name+" is over a year ago")
	case at > d.from.Append && (ahead > maxAhead || ahead < 0):
		d.refuse(trigger.CodeBeyondHorizon, f.path(), fieldTable[f].name+" is over 100 years ahead")
	}
}

// checkLocalRange refuses wall times that are out of range in every zone. The rest is checked
// once the zone is resolved.
func (d *draft) checkLocalRange(wall calendar.Wall) {
	if ahead := trigger.Instant(wall).Sub(d.from.Append); ahead > 0 {
		d.checkRange(fFireAt, trigger.Instant(wall).Add(-zoneSlack))
	} else {
		d.checkRange(fFireAt, trigger.Instant(wall).Add(zoneSlack))
	}
}

func (d *draft) recurrence(w *trigger.When, zone string) {
	w.Kind, w.Zone = trigger.WhenRecurrence, zone
	if d.seen.has(fRecurrence) {
		w.Recurrence = d.rule()
	}
	w.Start = d.momentText(fStart) + d.momentText(fFireAt) // at most one of them is given
	w.Until = d.momentText(fUntil)
	w.Include, w.Exclude = d.dates(fInclude, d.include), d.dates(fExclude, d.exclude)
	if len(w.Include)+len(w.Exclude) > maxDates {
		longer := fInclude
		if len(w.Exclude) > len(w.Include) {
			longer = fExclude
		}
		d.refuse(trigger.CodeInvalidRule, longer.path(), "include and exclude may have at most 512 dates together")
	}
	if d.seen.has(fInclude) && len(w.Include) == 0 && w.Recurrence == "" {
		d.refuse(trigger.CodeConflictingTime, "include",
			"include is empty and there is no recurrence: write at least one date")
	}
	w.Count = int(d.number(fCount, maxCount))
}

// rule is the rule's text. Package calendar parses it.
func (d *draft) rule() string {
	s := d.text[fRecurrence]
	switch {
	case s == "":
		d.refuse(trigger.CodeInvalidRule, "recurrence", "recurrence is empty")
	case len(s) > maxRule:
		d.refuse(trigger.CodeInvalidRule, "recurrence", fmt.Sprintf("recurrence has %d bytes; at most %d", len(s),
			maxRule))
	case !printable(s):
		d.refuse(trigger.CodeInvalidRule, "recurrence",
			"recurrence has a control character: it is one line, without RDATE or EXDATE")
	}
	return s
}

// dates checks a list of dates, local date-times and instants, and keeps them
// as they were written.
func (d *draft) dates(f field, list []string) []string {
	for _, s := range list {
		if isDate(s) {
			continue
		}
		if _, err := parseMoment(s); err != nil {
			d.refuse(trigger.CodeInvalid, f.path(), quoteForPerson(clip(s,
				40))+" is no date, local date-time or instant")
		}
	}
	return list
}

// occurrence names one occurrence: by its local date, its local date-time, its instant, or
// its id in the engine.
func (d *draft) occurrence() string {
	s := d.string(fOccurrence, maxText)
	id, _, _ := strings.Cut(s, "~")
	if id = strings.TrimSuffix(id, "+f1"); s == "" || isDate(id) {
		return s
	}
	if _, err := parseMoment(id); err != nil {
		d.refuse(trigger.CodeInvalid, "occurrence", quoteForPerson(clip(s,
			40))+" is no local date, local date-time or instant")
	}
	return s
}

// zone checks the form of the timezone; whether it exists depends on the tz
// database in force.
func (d *draft) zone() string {
	s := d.text[fTimezone]
	switch {
	case !d.seen.has(fTimezone):
		return ""
	case s == "":
		d.refuse(trigger.CodeUnknownZone, "timezone", "timezone is empty: write an IANA name such as Europe/Berlin")
	case !zoneName(s):
		d.refuse(trigger.CodeUnknownZone, "timezone", quoteForPerson(clip(s,
			40))+" is no IANA name such as Europe/Berlin; an offset is not a zone")
	}
	return s
}

// idleZone is a timezone beside an instant or a delay, where it has no effect. It must exist
// all the same, because a misspelt zone is a mistake that would matter elsewhere.
func (d *draft) idleZone(w *trigger.When) string {
	if w.Zone != "" {
		return ""
	}
	return d.text[fTimezone]
}

func zoneName(s string) bool {
	if len(s) > maxZone {
		return false
	}
	for i, c := range []byte(s) {
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		inside := c >= '0' && c <= '9' || c == '_' || c == '-' || c == '+' || c == '/'
		if !letter && (i == 0 || !inside) {
			return false
		}
	}
	return true
}

// dst maps the defaults to "", as trigger.DST has them.
func (d *draft) dst() trigger.DST {
	gaps, overlaps := [...]string{"", "skip"}, [...]string{"", "second", "both"}
	return trigger.DST{
		Gap:     gaps[d.choice(fGap, "shift", "skip")],
		Overlap: overlaps[d.choice(fOverlap, "first", "second", "both")],
	}
}

func (d *draft) calendars() *trigger.Calendars {
	if !d.seen.has(fCalendars) {
		return nil
	}
	names := [...]string{"skip", "next_business_day", "previous_business_day"}
	c := &trigger.Calendars{Names: d.calendarNames, On: names[d.choice(fOn, names[:]...)]}
	if len(c.Names) == 0 || len(c.Names) > calendar.MaxCalendars {
		d.refuse(trigger.CodeInvalid, "calendars",
			fmt.Sprintf("calendars.names must have 1 to %d names", calendar.MaxCalendars))
	}
	for _, name := range c.Names {
		if !ValidName(name) {
			d.refuse(trigger.CodeInvalid, "calendars", quoteForPerson(clip(name, 40))+" is not a calendar name")
		}
	}
	if d.seen.has(fDelay) {
		d.refuse(trigger.CodeInvalid, "calendars", "calendars needs a recurrence")
	}
	return c
}

// moment is a point in time as it was written: an instant, or a wall time whose zone is the
// field timezone.
type moment struct {
	instant trigger.Instant
	wall    calendar.Wall
	local   string // canonical; "" for instants
}

func (m moment) String() string {
	if m.local != "" {
		return m.local
	}
	return m.instant.String()
}

func (d *draft) moment(f field) moment {
	m, err := parseMoment(d.text[f])
	if err != nil {
		d.refuseError(f.path(), err)
	}
	return m
}

// momentText is the canonical text of a moment, "" if it was not given.
func (d *draft) momentText(f field) string {
	if !d.seen.has(f) {
		return ""
	}
	return d.moment(f).String()
}

// parseMoment reads a local date-time, or an instant as calendar.ParseInstant does. The
// text's shape tells which it is, so the error can name what is missing.
func parseMoment(s string) (moment, error) {
	if isDate(s) || wallShaped(s) {
		wall, err := calendar.ParseWall(s)
		return moment{wall: wall, local: wall.String()}, err
	}
	at, err := calendar.ParseInstant(s)
	return moment{instant: trigger.Instant(at)}, err
}

// isDate checks the length first, because making an error costs more than parsing.
func isDate(s string) bool {
	if len(s) != len(time.DateOnly) {
		return false
	}
	_, err := calendar.ParseDate(s)
	return err == nil
}

// wallShaped reports whether s is long enough for a date-time and has no offset at its end.
func wallShaped(s string) bool {
	const minutes = len("2026-11-20T09:00")
	return len(s) >= minutes && s[10] == 'T' && !strings.ContainsAny(s[minutes:], "Zz+-")
}

// refuseError refuses with another parser's error, under the name of this field.
func (d *draft) refuseError(f string, err error) {
	if d.err == nil {
		d.err = fieldError(f, err)
	}
}

// fieldError turns an error of calendar or of this package into one about
// field f.
func fieldError(f string, err error) *trigger.Error {
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		return fail(trigger.Code(e.Code), f, e.Msg)
	}
	if e, ok := errors.AsType[*trigger.Error](err); ok {
		return fail(e.Code, f, e.Msg)
	}
	return &trigger.Error{Code: trigger.CodeInvalid, Field: f, Msg: "it cannot be read", Err: err}
}
