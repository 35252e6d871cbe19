package check

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The states of a trigger. "" is a key of which nothing is remembered.
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

// model is what must be remembered of a trigger to know what it does next.
type model struct {
	known    bool // the model follows the trigger from a register on
	loose    bool // an event is missing, or was wrong: this one is believed
	drift    bool // and so is the next one that speaks of the plan
	status   string
	revision int64
	seq      int64
	changed  int64 // when the status changed last

	begun    location    // first append of the register that began this life
	later    bool        // it is not the first life that is remembered
	reg      *command    // register in force: what the next one is compared with
	body     *command    // content in force: the register's, or that of a dead letter that was redriven
	when     when        // time part in force
	appended int64       // first append of what brought it
	moved    bool        // by reschedule, snooze or rezone: when is not reg's any more
	anchor   *phaseStart // phase of a series without a start
	plan     plan
	live     map[string]*live     // occurrences off the plan, and in flight
	redriven map[string]*redriven // by whole name: of whatever life
	erasure  *erasure             // the last erase; nil: none is remembered
	done     map[string]bool      // names that were decided in this life
	went     map[string]bool      // and of these, what fired
	lastWent []int64              // when the last 16 firings of this life went out, oldest first
	skips    map[string]bool      // names that were skipped ahead
	decided  int64                // newest nominal instant of the plan that was decided
	idem     []idemKey
	newest   int64 // newest first append that was applied
	heard    int64 // the same, with those that changed nothing, or told nothing
	run      misfireRun

	next    int // commands before were applied
	missing int // events that are not there
}

// plan is the next occurrence on the schedule.
type plan struct {
	has     bool
	open    bool // cannot be judged: the account is believed
	next    occurrence
	series  *series
	it      *steps
	oneShot bool
	snoozed bool // a snooze moved it: it never misfires
}

// live is an occurrence off the plan: snoozed, run now, or fired and perhaps in
// flight.
type live struct {
	due       int64 // when it goes out; 0: it has gone out
	nominal   int64
	attempt   int
	postponed int
	revision  int64
	first     *due     // its first emission
	content   *command // it was fired with
	gone      bool     // decided: nothing more is expected
}

// redriven is a dead letter that was tried again.
type redriven struct {
	live
	from int   // the attempt that died
	at   int64 // when
}

// erasure is an erase, and the lives after it. Dead letters of no other life can be
// redriven.
type erasure struct {
	at    location
	lives map[location]bool
}

// begin notes that a life begins.
func (e *erasure) begin(at location) {
	if e != nil {
		e.lives[at] = true
	}
}

// closes reports whether the erase ended the life of an occurrence. sure is false if the
// life began on another log than that of the erase and is not known: it may have been
// forgotten before the erase, and nothing tells which came first.
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

// misfireRun is a run of missed occurrences that was told.
type misfireRun struct {
	left   int64 // still to be decided
	last   int64
	policy string
}

// reset forgets everything: the horizon has ended, or nothing was known.
func (m *model) reset() {
	next, missing := m.next, m.missing
	*m = model{
		known: true, live: map[string]*live{}, redriven: map[string]*redriven{},
		done: map[string]bool{}, went: map[string]bool{},
		skips: map[string]bool{}, next: next, missing: missing,
	}
}

// forgetPlan drops all that waits.
func (m *model) forgetPlan() {
	m.plan = plan{}
	m.run = misfireRun{}
}

// dropLive ends everything off the plan.
func (m *model) dropLive() {
	for _, l := range m.live {
		l.gone = true
	}
	for _, r := range m.redriven {
		r.gone = true
	}
}

// waits says whether anything is to go out.
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

// liveOf is an occurrence off the plan or in flight; nil without one.
func (m *model) liveOf(occurrence string) *live {
	if r := m.redriven[occurrence]; r != nil {
		return &r.live
	}
	name, _ := base(occurrence)
	return m.live[name]
}

// base is an occurrence's name without the mark of a later life.
func base(name string) (string, string) {
	if i := strings.LastIndexByte(name, '~'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// lifeMark is what a later life adds to the names of its occurrences.
func (m *model) lifeMark() string {
	if !m.later {
		return ""
	}
	return strings.Replace(m.begun.String(), "/", "-", 1)
}

// commandMark is the name of an occurrence that a command made.
func commandMark(kind string, c *command) string {
	return kind + "-" + strings.Replace(c.first.String(), "/", "-", 1)
}

// setPlan works out what a time part means. from is the instant (ms) from which
// on occurrences count.
func (t *life) setPlan(from int64) {
	t.plan = plan{}
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
	if t.when.calendars {
		t.w.skip("recurrences with named calendars")
		t.plan = plan{has: true, open: true}
		return
	}
	r := t.when.recurrence
	r.gap, r.overlap = or(r.gap, "shift"), or(r.overlap, "first")
	s, err := newSeries(&r, t.o.Zones, t.appended, t.anchor)
	if err != nil {
		t.w.skip("recurrences the oracle does not understand")
		t.plan = plan{has: true, open: true}
		return
	}
	if r.start == "" && t.anchor == nil {
		t.anchor = &phaseStart{wall: s.start, frac: s.frac, at: s.startAt}
	}
	t.plan = plan{series: s, it: s.later(from - 1)}
	t.advance()
}

// advance moves the plan to its next occurrence that was not decided already.
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
		if t.done[o.name] || t.skips[o.name] {
			delete(t.skips, o.name)
			continue
		}
		p.has, p.next = true, o
		return
	}
}

// decide notes that an occurrence of the plan was decided: it fired, was missed,
// expired or skipped.
func (t *life) decide(o occurrence) {
	t.done[o.name] = true
	if len(t.done) > 4096 { // names of a series ascend: the oldest cannot come again
		clear(t.done)
		t.done[o.name] = true
	}
	t.decided = max(t.decided, o.at)
}

// believe makes the plan what an event says it is: what came before cannot be
// judged, or was reported.
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

// keepFirings is how many firings of a life the engine knows by name
// (docs/SEMANTICS.md, section 4).
const keepFirings = 16

// wentOut notes a first emission.
func (m *model) wentOut(at int64) {
	m.lastWent = append(m.lastWent, at)
	if len(m.lastWent) > keepFirings {
		m.lastWent = m.lastWent[1:]
	}
}

// countsAsFired says whether what fired at an instant may be known by name no
// more, so that the instant counts as fired.
func (m *model) countsAsFired(at int64) bool {
	return len(m.lastWent) == keepFirings && at <= m.lastWent[0]
}

func (w *worker) skip(what string) { w.skipped[what]++ }

// clock is a zone's, kept for the next trigger.
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

// seen looks an idempotency key up: the last 16 count.
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
