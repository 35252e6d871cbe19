package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The states of a trigger. "" is a key without state.
const (
	none      = ""
	pending   = "PENDING"
	paused    = "PAUSED"
	inFlight  = "IN_FLIGHT"
	fired     = "FIRED"
	failed    = "FAILED"
	cancelled = "CANCELLED"
	expired   = "EXPIRED"
	unknown   = "UNKNOWN"
	erased    = "ERASED"
)

func finished(status string) bool {
	return status != pending && status != paused && status != inFlight
}

// model is the part of a trigger's history that decides what it does next.
type model struct {
	known    bool // the model has followed the trigger since a register
	loose    bool // an event was missing or wrong: adopt the state of the next one
	drift    bool // adopt the plan of the next event that names one
	status   string
	revision int64
	seq      int64
	changed  int64 // when the status last changed

	begun       location    // first append of the register that began this life
	later       bool        // it is not the first life with state
	reg         *command    // register in force; the next one is compared with it
	body        *command    // content in force: the register's, or that of a redriven dead letter
	when        when        // time part in force
	appended    int64       // first append of the command that set it
	moved       bool        // by reschedule, snooze or rezone: when differs from reg's
	anchor      *phaseStart // phase of a series without a start
	plan        plan
	perhaps     *plan                // in its place, if the engine planned by newer calendars before it said so
	live        map[string]*live     // occurrences that are off the plan or in flight
	redriven    map[string]*redriven // by full name, of any life
	erasure     *erasure             // the last erase; nil: none is known
	done        map[string]bool      // names that were decided in this life
	went        map[string]bool      // those of them that fired
	merged      map[string]bool      // names that had the same instant as one of them
	lastWent    []int64              // times of the last 16 firings of this life, oldest first
	skips       map[string]bool      // names that were skipped ahead
	maybe       map[string]bool      // names that a missed run decided if newer calendars were in force
	decided     int64                // newest nominal instant of the plan that was decided
	reached     int64                // up to this instant, everything of the plan is decided
	settings    int64                // calendars below this offset of control are in force
	newer       int64                // those below this offset may be
	unsure      bool                 // a plan may have been computed while it was not known which
	hazy        int64                // a change of calendars made due what was past: until then, all may be missed
	rezoned     bool                 // it was moved to another zone in this life
	shown       wall                 // local time up to which all was decided in the zone before
	missedUntil int64                // an event reports what was missed up to here
	missedBy    string               // the policy that it names
	idem        []idemKey
	newest      int64 // newest first append that was applied
	heard       int64 // the same, including commands without a change or an event
	run         misfireRun

	next    int // commands below this index were applied
	missing int // number of missing events
}

// plan is the next occurrence on the schedule.
type plan struct {
	has     bool
	open    bool // unknown: the events are accepted
	next    occurrence
	series  *series
	it      *steps
	oneShot bool
	snoozed bool // a snooze moved it, so it never misfires
}

// live is an occurrence off the plan: snoozed, run now, or fired and perhaps in flight.
type live struct {
	due       int64 // when it will fire; 0: it has fired
	nominal   int64
	attempt   int
	postponed int
	revision  int64
	first     *due     // its first emission
	content   *command // content with which it fired
	gone      bool     // decided: nothing more is expected

	step     int   // of an escalation; attempt, postponed and first are the step's own
	nextAt   int64 // before this the next step must not go; 0: there is none, or it is held
	accepted bool  // by a receipt, of any step
}

// redriven is a dead letter with another attempt.
type redriven struct {
	live
	from int   // the attempt that was dead-lettered
	at   int64 // time of the redrive
}

// erasure is an erase, and the lives after it. Dead letters of earlier lives cannot be redriven.
type erasure struct {
	at    location
	lives map[location]bool
}

// begin notes the beginning of a life.
func (e *erasure) begin(at location) {
	if e != nil {
		e.lives[at] = true
	}
}

// closes reports whether the erase ended the life of an occurrence. sure is false if the life
// began on another log than the erase and is not known. It may have been forgotten before the
// erase, and the order of the two is unknown.
func (e *erasure) closes(occurrence string) (closed, sure bool) {
	if e == nil {
		return false, true
	}
	_, mark := base(occurrence)
	if mark == "" {
		return true, true
	}
	var at location
	if n, err := fmt.Sscanf(mark, "%d-%d", &at.partition, &at.offset); n != 2 || err != nil {
		return true, true
	}
	return !e.lives[at], at.partition == e.at.partition
}

type idemKey struct {
	key     string
	content *command
}

// misfireRun is a run of missed occurrences that an event reported.
type misfireRun struct {
	left   int64 // occurrences still to be decided
	last   int64
	policy string
}

// reset clears the model: the horizon has ended, or nothing was known.
func (m *model) reset() {
	next, missing := m.next, m.missing
	settings, newer := m.settings, m.newer
	*m = model{
		known: true, live: map[string]*live{}, redriven: map[string]*redriven{},
		done: map[string]bool{}, went: map[string]bool{}, merged: map[string]bool{},
		skips: map[string]bool{}, next: next, missing: missing, settings: settings, newer: newer,
	}
}

// forgetPlan drops all pending occurrences.
func (m *model) forgetPlan() {
	m.plan = plan{}
	m.run = misfireRun{}
}

// dropLive ends all occurrences off the plan.
func (m *model) dropLive() {
	for _, l := range m.live {
		l.gone = true
	}
	for _, r := range m.redriven {
		r.gone = true
	}
}

// waits reports whether an occurrence is pending.
func (m *model) waits() bool {
	if m.plan.has {
		return true
	}
	for _, l := range m.live {
		if !l.gone && l.due != 0 {
			return true
		}
	}
	for _, r := range m.redriven {
		if !r.gone && r.due != 0 {
			return true
		}
	}
	return false
}

// liveOf returns an occurrence that is off the plan or in flight, or nil.
func (m *model) liveOf(occurrence string) *live {
	if r := m.redriven[occurrence]; r != nil {
		return &r.live
	}
	name, _ := base(occurrence)
	return m.live[name]
}

// base splits an occurrence's name into the name and the mark of a later life.
func base(name string) (string, string) {
	if i := strings.LastIndexByte(name, '~'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// lifeMark returns the suffix of the names of occurrences in a later life.
func (m *model) lifeMark() string {
	if !m.later {
		return ""
	}
	return strings.Replace(m.begun.String(), "/", "-", 1)
}

// commandMark returns the name of an occurrence that a command created.
func commandMark(kind string, c *command) string {
	return kind + "-" + strings.Replace(c.first.String(), "/", "-", 1)
}

// setPlan computes the plan of the time part. Occurrences count from instant from (ms).
func (t *life) setPlan(from int64) {
	t.plan, t.perhaps = plan{}, nil
	w := &t.when
	switch w.kind {
	case whenDelay:
		at := t.appended + w.delay
		t.plan = plan{has: true, oneShot: true, next: occurrence{at: at, name: spell(at)}}
	case whenInstant:
		t.plan = plan{has: true, oneShot: true, next: occurrence{at: w.at, name: spell(w.at)}}
	case whenLocal:
		t.planLocal()
	case whenSeries:
		t.planSeries(from)
	default:
		t.plan.open = true
	}
}

func (t *life) planLocal() {
	w := &t.when
	loc, ok := t.o.Zones.location(w.zone)
	if !ok {
		t.w.skip("one-shots in zones the tz database does not have")
		t.plan = plan{has: true, open: true, oneShot: true}
		return
	}
	at := t.w.clock(w.zone, loc).resolve(w.wall, or(w.gap, "shift"), or(w.overlap, "first"))
	if len(at) == 0 {
		t.plan = plan{has: true, open: true, oneShot: true}
		return
	}
	name := wallName(w.wall, w.frac, at[0].second && w.overlap == "both")
	t.plan = plan{has: true, oneShot: true, next: occurrence{
		at: at[0].at*1000 + w.frac, name: name, local: w.wall,
		named: true,
	}}
}

func (t *life) planSeries(from int64) {
	t.reached = from - 1
	s := t.seriesBelow(t.settings)
	if s == nil {
		t.plan = plan{has: true, open: true}
		return
	}
	if t.when.start == "" && t.anchor == nil {
		t.anchor = &phaseStart{wall: s.start, frac: s.frac, at: s.startAt}
	}
	t.plan = plan{series: s, it: s.later(from - 1)}
	t.advance()
}

// seriesBelow compiles the series by the calendars below an offset of control. nil: it cannot be judged.
func (t *life) seriesBelow(offset int64) *series {
	if t.when.calendars != nil && (!t.o.Disputed || !t.part.turned) {
		t.w.skip("recurrences with named calendars")
		return nil
	}
	r := t.when.recurrence
	r.gap, r.overlap, r.holidays = or(r.gap, "shift"), or(r.overlap, "first"), t.holidaysBelow(offset)
	s, err := newSeries(&r, t.o.Zones, t.appended, t.anchor)
	if err != nil {
		t.w.skip("recurrences the oracle does not understand")
		return nil
	}
	return s
}

// advance moves the plan to the next occurrence that is not decided yet.
func (t *life) advance() {
	p := &t.plan
	if p.oneShot || p.it == nil {
		p.has = p.open && !p.oneShot
		return
	}
	for {
		o, ok := p.it.next()
		if !ok {
			p.has, p.next = false, occurrence{}
			return
		}
		if t.skips[o.name] { // decided, also if a calendar moves it to a later day
			t.done[o.name] = true
			delete(t.skips, o.name)
		}
		if t.done[o.name] {
			continue
		}
		p.has, p.next = true, o
		return
	}
}

// decide notes that an occurrence of the plan was decided: it fired, was missed, expired or was
// skipped.
func (t *life) decide(o occurrence) {
	t.done[o.name], t.perhaps = true, nil
	for _, name := range o.also {
		t.merged[name] = true
	}
	if len(t.done) > 4096 { // names of a series ascend, so the oldest cannot recur
		clear(t.done)
		t.done[o.name] = true
	}
	t.decided, t.reached = max(t.decided, o.at), max(t.reached, o.at)
}

// believe takes the plan from an event, because the earlier part cannot be judged, or was
// reported already.
func (t *life) believe(name string, at int64) {
	p := &t.plan
	if p.it == nil || at == 0 {
		p.has, p.next.at, p.next.name = at != 0, at, name
		return
	}
	for p.has && p.next.at < at {
		t.advance()
	}
	if !p.has || p.next.at != at {
		series := p.series
		*p = plan{has: true, next: occurrence{at: at, name: name}, series: series, it: series.later(at)}
	}
}

// keepFirings is how many firings of a life the engine keeps by name (docs/SEMANTICS.md, section
// 4).
const keepFirings = 16

// wentOut notes the time of a first emission.
func (m *model) wentOut(at int64) {
	m.lastWent = append(m.lastWent, at)
	if len(m.lastWent) > keepFirings {
		m.lastWent = m.lastWent[1:]
	}
}

// countsAsFired reports whether the engine may no longer know firings at this instant by name.
// Then the instant counts as fired.
func (m *model) countsAsFired(at int64) bool {
	return len(m.lastWent) == keepFirings && at <= m.lastWent[0]
}

func (w *worker) skip(what string) { w.skipped[what]++ }

// clock returns the clock of a zone, and keeps it for the next trigger.
func (w *worker) clock(name string, loc *time.Location) *clockwork {
	if w.clocks == nil || len(w.clocks) > 64 {
		w.clocks = map[string]*clockwork{}
	}
	c := w.clocks[name]
	if c == nil {
		c = newClockwork(loc)
		w.clocks[name] = c
	}
	return c
}

// seen finds an idempotency key among the last 16.
func (m *model) seen(key string) *command {
	for i := range m.idem {
		if m.idem[i].key == key {
			return m.idem[i].content
		}
	}
	return nil
}

func (m *model) keepKey(c *command) {
	if c.idem == "" || m.seen(c.idem) != nil {
		return
	}
	m.idem = append(m.idem, idemKey{c.idem, c})
	if len(m.idem) > 16 {
		m.idem = slices.Delete(m.idem, 0, 1)
	}
}
