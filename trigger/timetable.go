package trigger

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// Timetable resolves local times and recurrences into instants. It has one release of the tz
// database, and the named calendars as of an offset of topic control. Each release has a
// Timetable of its own.
type Timetable struct {
	Zones     *calendar.Zones
	Calendars map[string]calendar.DateSet // holiday sets by name
	MinPeriod func(tenant string) time.Duration

	rules map[ruleKey]*calendar.Rule // compiled; bounded by maxRules
}

// maxRules bounds the compiled rules a partition keeps: about 2 KB each.
const maxRules = 4096

// ruleKey has what a compiled rule depends on, in the common case.
type ruleKey struct {
	recurrence, start, zone, until, gap, overlap string
	count                                        int
}

// local resolves a wall time in a zone. The occurrence's id is the wall time asked for. Local
// is what clocks show then, which is later if the time lies in a gap.
func (t *Timetable) local(wall, zone string, dst DST) (occurrence, *Error) {
	d, err := calendar.ParseDST(dst.Gap, dst.Overlap)
	if err != nil {
		return occurrence{}, fromCalendar(err)
	}
	o, err := calendar.ResolveAt(t.Zones, wall, zone, d)
	if err != nil {
		return occurrence{}, fromCalendar(err)
	}
	z, err := t.Zones.Lookup(zone)
	if err != nil {
		return occurrence{}, fromCalendar(err)
	}
	return occurrence{
		At: Instant(o.At), ID: o.ID(), Local: z.Wall(o.At).String() + "[" + zone + "]", Note: o.Note,
	}, nil
}

// sameWall is when clocks in zone to show the wall time that zone from has at the instant at.
// If zone to skips that wall time, it is the millisecond before the gap.
func (t *Timetable) sameWall(at Instant, from, to string) Instant {
	a, err := t.Zones.Lookup(cmp.Or(from, "UTC"))
	if err != nil {
		return at
	}
	b, err := t.Zones.Lookup(cmp.Or(to, "UTC"))
	if err != nil {
		return at
	}
	wall := a.Wall(int64(at))
	there := b.Reach(wall)
	if b.Wall(there) > wall {
		there--
	}
	return Instant(there)
}

// instantOf is when clocks in a zone show the wall time in an occurrence's id. In an overlap
// that is the first time; in a gap it is later by the gap. ok is false if the id is no wall
// time.
func (t *Timetable) instantOf(occurrence, zone string) (at Instant, ok bool) {
	return t.named(occurrence, zone, (*calendar.Zone).ResolveFirst)
}

// reach is instantOf, but in a gap its end: when clocks first show a later time.
func (t *Timetable) reach(occurrence, zone string) (at Instant, ok bool) {
	return t.named(occurrence, zone, (*calendar.Zone).Reach)
}

func (t *Timetable) named(occurrence, zone string, resolve func(*calendar.Zone, calendar.Wall) int64) (Instant, bool) {
	z, err := t.Zones.Lookup(cmp.Or(zone, "UTC"))
	if err != nil {
		return 0, false
	}
	w, err := calendar.ParseWall(wallOfID(occurrence))
	if err != nil {
		return 0, false
	}
	return Instant(resolve(z, w)), true
}

// wallOf converts a start that is an instant into the wall time in a zone.
func (t *Timetable) wallOf(start, zone string) string {
	at, err := calendar.ParseInstant(start)
	if err != nil {
		return start // a wall time already
	}
	z, err := t.Zones.Lookup(cmp.Or(zone, "UTC"))
	if err != nil {
		return start
	}
	return z.Wall(at).String()
}

// occurrence is one resolved occurrence.
type occurrence struct {
	At    Instant
	ID    string // wall time, or the instant for rules of elapsed time
	Local string // 2026-11-20T09:00:00[America/New_York], local-time triggers only
	Note  string // what a gap, an overlap or a calendar did to the wall time; for people
}

// rule is a compiled recurrence.
type rule struct {
	*calendar.Rule
	zone string
}

// compile checks and compiles the recurrence of w for a tenant. start replaces the start in
// w: it is the resolved start of a plan, so that the phase stays.
func (t *Timetable) compile(w *When, tenant, start string, from Instant) (rule, *Error) {
	start = cmp.Or(start, w.Start)
	key := ruleKey{w.Recurrence, start, w.Zone, w.Until, w.DST.Gap, w.DST.Overlap, w.Count}
	plain := start != "" && len(w.Include) == 0 && len(w.Exclude) == 0 && w.Calendars == nil
	if r := t.rules[key]; plain && r != nil {
		return rule{r, w.Zone}, nil
	}
	r, err := calendar.Compile(t.Zones, t.spec(w, tenant, start, from))
	if err != nil {
		return rule{}, fromCalendar(err)
	}
	if plain {
		t.keep(key, r)
	}
	return rule{r, w.Zone}, nil
}

// allowed refuses a new rule with a shorter period than the tenant may have. Rules that were
// accepted before go on, whatever the limit is now.
func (t *Timetable) allowed(r rule, tenant string) *Error {
	least := defaultMinPeriod
	if t.MinPeriod != nil {
		least = cmp.Or(t.MinPeriod(tenant), least)
	}
	if err := r.CheckPeriod(least); err != nil {
		return fromCalendar(err)
	}
	return nil
}

// defaultMinPeriod is the contract's; the setting is limits.min_period.
const defaultMinPeriod = time.Minute

func (t *Timetable) spec(w *When, tenant, start string, from Instant) calendar.Spec {
	d, _ := calendar.ParseDST(w.DST.Gap, w.DST.Overlap) // topics has checked the values
	s := calendar.Spec{
		Recurrence: w.Recurrence, Start: start, Zone: w.Zone, Include: w.Include, Exclude: w.Exclude,
		Until: w.Until, Count: w.Count, DST: d, Append: int64(from), Limits: calendar.Limits{MinPeriod: -1},
	}
	if w.Calendars != nil {
		s.Calendars = &calendar.CalendarRule{Names: w.Calendars.Names, On: w.Calendars.On}
		for _, name := range w.Calendars.Names {
			set, _ := t.Calendar(tenant, name)
			s.Calendars.Sets = append(s.Calendars.Sets, set)
		}
	}
	return s
}

// keep caches a compiled rule. A full cache is emptied first.
func (t *Timetable) keep(key ruleKey, r *calendar.Rule) {
	if t.rules == nil || len(t.rules) >= maxRules {
		t.rules = make(map[ruleKey]*calendar.Rule)
	}
	t.rules[key] = r
}

// OwnCalendar is the full name of a tenant's own calendar, by which nobody else
// can name it: names in triggers have no '/'.
func OwnCalendar(tenant, name string) string { return tenant + "/" + name }

// Calendar resolves a calendar's name for a tenant: its own calendar, else the one for all
// tenants.
func (t *Timetable) Calendar(tenant, name string) (calendar.DateSet, bool) {
	if set, own := t.Calendars[OwnCalendar(tenant, name)]; own {
		return set, true
	}
	if strings.Contains(name, "/") { // another tenant's
		return nil, false
	}
	set, ok := t.Calendars[name]
	return set, ok
}

// missing lists those of a trigger's calendars that do not exist.
func (t *Timetable) missing(c *Calendars, tenant string) string {
	if c != nil {
		for _, name := range c.Names {
			if _, ok := t.Calendar(tenant, name); !ok {
				return name
			}
		}
	}
	return ""
}

// next is the first occurrence strictly after t.
func (r rule) next(t Instant) (occurrence, bool, *Error) {
	o, ok, err := r.Next(int64(t))
	if err != nil {
		return occurrence{}, false, fromCalendar(err)
	}
	return r.spell(o), ok, nil
}

// named is the occurrence with an id as zone and calendars have it now.
func (r rule) named(id string) (occurrence, bool) {
	o, ok, err := r.Named(id)
	if err != nil || !ok {
		return occurrence{}, false
	}
	return r.spell(o), true
}

func (r rule) spell(o calendar.Occurrence) occurrence {
	out := occurrence{At: Instant(o.At), ID: o.ID(), Note: o.Note}
	if !o.Elapsed {
		out.Local = r.LocalTime(o)
	}
	return out
}

// missed counts the occurrences in (after, until], at most maxMissed of them.
func (r rule) missed(after, until Instant) (count int, last occurrence) {
	n, _, l, err := r.Missed(int64(after), int64(until), maxMissed)
	if err != nil || n == 0 {
		return 0, occurrence{}
	}
	return n, r.spell(l)
}

// fromCalendar converts an error of package calendar. The codes are the same.
func fromCalendar(err error) *Error {
	var e *calendar.Error
	if errors.As(err, &e) {
		return &Error{Code: Code(e.Code), Field: e.Field, Msg: e.Msg}
	}
	return &Error{Code: CodeInvalid, Msg: err.Error()}
}

// Fork is a Timetable of the same release with a cache of its own. Each goroutine needs one.
func (t *Timetable) Fork() *Timetable {
	return &Timetable{Zones: t.Zones, Calendars: t.Calendars, MinPeriod: t.MinPeriod}
}

// PutCalendar sets a named calendar; nil dates remove it.
func (t *Timetable) PutCalendar(name string, dates []string) error {
	all := make(map[string]calendar.DateSet, len(t.Calendars)+1)
	for n, set := range t.Calendars {
		all[n] = set
	}
	delete(all, name)
	if dates != nil {
		set, err := calendar.NewDateSet(dates)
		if err != nil {
			return err
		}
		all[name] = set
	}
	t.Calendars = all
	return nil
}
