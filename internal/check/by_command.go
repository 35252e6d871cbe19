package check

import (
	"slices"
	"strings"
)

// byCommand replays an event that a command caused. It first applies the earlier commands, which
// caused no event.
func (t *life) byCommand(e *event, at location) {
	if !strings.HasPrefix(e.source, t.v.h.Prefix+"commands/") {
		return
	}
	i := t.find(at)
	switch {
	case i < 0:
		t.unfounded(e, at)
		return
	case i < t.next: // another event of a command that was applied already
		t.follow(e, t.commands[i])
		return
	}
	for ; t.next < i; t.next++ {
		t.silent(t.commands[t.next])
	}
	if e.kind == evRescheduled && (e.reason == "settings" || e.reason == "tzdata") {
		t.byTimer(e) // the plan was made anew first; the command's own event follows
		return
	}
	t.next++
	t.apply(t.commands[i], e)
}

// find returns the index of the command that an event names, by its offset or by the offset of
// its first append.
func (t *life) find(at location) int {
	match := func(c *command) bool { return c.at == at || c.claims && c.first == at }
	for i := t.next; i < len(t.commands); i++ {
		if match(t.commands[i]) {
			return i
		}
	}
	return slices.IndexFunc(t.commands[:t.next], match)
}

// unfounded replays an event that names a command which is not there.
func (t *life) unfounded(e *event, at location) {
	if int(at.partition) < len(t.v.parts) && at.offset < t.v.parts[at.partition].from {
		// The log of commands begins later than that of events: compaction has removed its
		// beginning.
		t.loosen()
		t.known = false
		t.follow(e, nil)
		return
	}
	if int(at.partition) >= len(t.v.parts) || !t.part.begun || t.isStray(at) {
		t.follow(e, nil)
		return
	}
	if e.append > t.v.full {
		return
	}
	if t.v.mayBeCompacted(at) {
		t.loosen()
		t.known = false
		t.follow(e, nil)
		return
	}
	t.fail(LostAck, append(t.eventRecord(e), e.source), "%s tells of a command that is not in the log", e.kind)
	t.known = false
	t.follow(e, nil)
}

// isStray reports whether the event names a command by the wrong partition on which it was first
// appended.
func (t *life) isStray(at location) bool {
	return slices.ContainsFunc(t.strays, func(c *command) bool { return c.at == at })
}

// follow accepts an event that the model cannot predict, or a further event of a command. The
// event must still be legal.
func (t *life) follow(e *event, c *command) {
	if e.kind == evRejected {
		t.checkRefusal(e, c)
		return
	}
	t.legal(e)
	if e.kind == evSkipped {
		t.skipped(e)
	}
	t.adopt(e)
}

// apply checks the result of a command against the contract, and updates the model.
func (t *life) apply(c *command, e *event) {
	restored := !t.known
	if t.known && !t.loose {
		allowed := t.expect(c)
		if !fits(allowed, e) {
			found := e.kind
			if e.kind == evRejected {
				found += " " + e.reason
			}
			t.fail(Illegal, append(t.eventRecord(e), t.commandRecord(c)...),
				"%s while the trigger is %s: the contract wants %s, told is %s",
				c.describe(), or(t.status, "unknown"), spellAllowed(allowed), found)
			t.loosen()
		}
	}
	if e.kind == evRejected {
		if onTrust[e.reason] && c.fault != e.reason {
			t.w.trusted[e.reason]++
		}
		t.checkRefusal(e, c)
	}
	t.effect(c, e)
	t.legal(e)
	t.adopt(e)
	t.checkNext(e)
	t.checkPlan(e, c)
	if e.kind == evRegistered || e.kind == evReplaced {
		t.known = true
	}
	if restored && t.known { // a register defines everything except what an earlier life left
		t.decided = 0
		if e.kind == evReplaced && t.when.kind == whenSeries && t.when.start == "" {
			t.plan.open = true // its phase comes from a register that is missing
			t.w.skip("series whose phase is older than the log, until their next life")
		}
	}
	if e.kind != evRejected && e.kind != evDuplicate {
		t.newest = max(t.newest, c.appended)
	}
	t.heard = max(t.heard, c.appended)
}

// checkRefusal checks that each refusal has one record on topic rejected, with the command's
// bytes and the same code.
func (t *life) checkRefusal(e *event, c *command) {
	for i := range t.refused {
		x := &t.refused[i]
		if x.used || x.source != e.source && (c == nil || x.source != t.commandRecord(c)[0] &&
			x.source != t.v.h.Prefix+"commands/"+c.first.String()) {
			continue
		}
		x.used = true
		if x.code != e.reason {
			t.fail(Illegal, append(t.eventRecord(e), t.v.h.Prefix+"rejected/"+x.at.String()),
				"the event refuses it as %s, the record as %s", e.reason, x.code)
		}
		return
	}
	if t.v.topics[t.v.h.Prefix+"rejected"] && t.complete(e.append) && strings.HasPrefix(e.source,
		t.v.h.Prefix+"commands/") {
		t.fail(Illegal, t.eventRecord(e), "the refusal (%s) has no record on rejected", e.reason)
	}
}

// raises reports whether an event that a command caused changes the trigger, and so raises the
// revision.
func raises(e *event) bool {
	switch e.kind {
	case evRegistered, evReplaced, evRescheduled, evPaused, evResumed, evCancelled, evSnoozed, evSkipped, evErased:
		return true
	}
	return e.kind == evTooLate && e.reason == "in_flight"
}

// effect changes the model as a command does whose result is e.
func (t *life) effect(c *command, e *event) {
	if raises(e) {
		t.revision++
	}
	switch e.kind {
	case evRegistered:
		t.register(c)
	case evReplaced:
		t.replace(c, e)
	case evRescheduled:
		t.reschedule(c)
	case evCancelled, evErased:
		t.forgetPlan()
		t.dropLive()
		if e.kind == evErased {
			t.reg, t.body, t.idem = nil, nil, nil
			t.erasure = &erasure{at: c.first, lives: map[location]bool{}}
		}
	case evTooLate:
		if e.reason == "in_flight" {
			t.forgetPlan()
			t.dropLive()
		}
	case evSnoozed:
		t.snooze(c, e)
	case evSkipped:
		t.skipped(e)
	case evStopped:
		if c.op == "ack" && c.which != "" && c.which != e.occurrence {
			t.fail(Illegal, append(t.eventRecord(e), e.source), "an ack of %s stopped %s", c.which, e.occurrence)
		}
		t.acked(c.which)
	case evRedriven:
		t.redrive(c, e)
	case evDuplicate:
		t.keepKey(c)
	}
	if e.kind == evRegistered || e.kind == evReplaced {
		t.keepKey(c)
	}
}

// redrive makes one more attempt for a dead letter, with the content of the dead letter. A
// finished trigger then waits for this attempt only. If its own content was not kept, it takes
// that of the dead letter. For a cancelled trigger, it begins a new life.
func (t *life) redrive(c *command, e *event) {
	if e.attempt != c.attempt+1 && t.known {
		t.fail(Illegal, append(t.eventRecord(e), t.commandRecord(c)...),
			"a redrive from attempt %d is told as attempt %d", c.attempt, e.attempt)
	}
	r := &redriven{from: c.attempt, at: e.occurred}
	r.due, r.nominal, r.attempt, r.step = e.occurred, e.scheduled, e.attempt, e.step
	for i := range t.dead {
		if d := &t.dead[i]; d.id == c.dueID && d.attempt == c.attempt {
			r.first = d
		}
	}
	if t.redriven == nil {
		t.redriven = map[string]*redriven{}
	}
	t.redriven[e.occurrence] = r
	if !finished(t.status) {
		return
	}
	t.forgetPlan()
	t.when = when{kind: whenInstant}
	t.revision = max(t.revision, 1)
	if !t.keepsContent() {
		t.body = c
	}
	if t.status == cancelled {
		t.begun, t.later = c.first, true
		t.erasure.begin(c.first)
		t.done, t.went, t.merged = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
}

// keepsContent reports whether a finished trigger keeps its content, for a late snooze.
func (m *model) keepsContent() bool {
	return (m.status == fired || m.status == expired) && m.body != nil && m.body.what.user != ""
}

// expectRedrive returns duplicate for an occurrence that is live, that the series has yet to
// fire, or that was redriven from this attempt or a later one within the horizon.
func (t *life) expectRedrive(c *command) []string {
	if t.status == erased {
		return []string{refused("not_found")}
	}
	name := strings.TrimPrefix(c.dueID, t.key+"@")
	name = name[:max(0, strings.LastIndexByte(name, '#'))]
	closed, sure := t.erasure.closes(name)
	if closed && sure {
		return []string{refused("not_found")}
	}
	if l := t.liveOf(name); l != nil && l.attempt > 0 && !l.gone && !finished(t.status) {
		return []string{evDuplicate}
	}
	if r := t.redriven[name]; r != nil && r.from >= c.attempt {
		return []string{evDuplicate, evRedriven} // the horizon decides which
	}
	expected := []string{evRedriven}
	if t.plan.has {
		expected = append(expected, evDuplicate)
	}
	if closed {
		expected = append(expected, refused("not_found"))
	}
	return expected
}

func (t *life) register(c *command) {
	later := t.status != none && t.status != unknown
	was := t.model
	t.reset()
	t.seq, t.revision, t.status, t.changed = was.seq, was.revision, was.status, was.changed
	t.idem, t.newest, t.heard = was.idem, was.newest, was.heard
	t.redriven, t.erasure = was.redriven, was.erasure
	t.begun, t.later = c.first, later
	t.erasure.begin(c.first)
	t.reg, t.body, t.when, t.appended = c, c, c.when, c.appended
	t.setPlan(c.appended)
}

// replace puts new content into the same life. A rule with the same text keeps its phase, unless
// a start is given (docs/decisions/0009). The gateway's patch continues where the series is.
func (t *life) replace(c *command, e *event) {
	sameText := t.when.kind == whenSeries && c.when.kind == whenSeries &&
		t.when.recurrence.text == c.when.recurrence.text
	goesOn := c.patch && sameText && t.when.sameTimes(&c.when)
	from, reached := c.appended, t.reached
	if !sameText || c.when.start != "" {
		t.anchor = nil
	}
	if goesOn && t.plan.has && !t.plan.open {
		from = t.plan.next.at
	}
	if !sameText {
		t.skips = map[string]bool{}
	}
	if !goesOn {
		t.missedUntil = 0
	}
	if sameText && c.when.zone != t.when.zone && t.plan.series != nil {
		t.rezoned, t.shown = true, t.plan.series.clock.show(floorDiv(t.reached, 1000))
	}
	snoozed := t.snoozedTo(c)
	t.reg, t.body, t.when, t.appended, t.moved = c, c, c.when, c.appended, false
	t.run = misfireRun{}
	t.setPlan(from)
	t.plan.snoozed = t.plan.has && snoozed[t.plan.next.at]
	if goesOn {
		t.reached = reached
	}
}

// snoozedTo returns the instants to which a one-shot was snoozed. A patch that keeps one does not make it
// a planned one, so it never misfires.
func (t *life) snoozedTo(c *command) map[int64]bool {
	if !c.patch || t.when.kind == whenSeries {
		return nil
	}
	at := map[int64]bool{}
	if t.plan.has && t.plan.snoozed {
		at[t.plan.next.at] = true
	}
	for name, l := range t.live {
		if !l.gone && l.due != 0 && l.attempt == 0 && strings.HasPrefix(name, "snz-") {
			at[l.due] = true
		}
	}
	return at
}

// sameTimes reports whether two series have the same time fields.
func (w *when) sameTimes(o *when) bool {
	return w.text == o.text && w.start == o.start && w.zone == o.zone && w.until == o.until && w.count == o.count &&
		w.calendarText == o.calendarText && w.gap == o.gap && w.overlap == o.overlap &&
		slices.Equal(w.include, o.include) && slices.Equal(w.exclude, o.exclude)
}

func (t *life) reschedule(c *command) {
	if c.op == "rezone" {
		t.rezone(c)
		return
	}
	same := t.when.kind == whenSeries && c.when.kind == whenSeries &&
		t.when.recurrence.text == c.when.recurrence.text && c.when.start == ""
	if !same {
		t.anchor = nil
	}
	if t.when.kind != whenSeries { // the pending occurrence of a one-shot moves, even if it is a snooze
		t.dropSnoozes()
	}
	gap, overlap := t.when.gap, t.when.overlap
	t.when, t.appended, t.moved = c.when, c.appended, true
	t.when.gap, t.when.overlap = or(c.when.gap, gap), or(c.when.overlap, overlap)
	t.run, t.missedUntil = misfireRun{}, 0
	t.setPlan(c.appended)
}

// rezone keeps local times, including that of the phase.
func (t *life) rezone(c *command) {
	t.when.zone, t.moved, t.rezoned = c.zone, true, true
	t.run, t.missedUntil = misfireRun{}, 0
	if t.plan.snoozed {
		return // it moved to an instant, which does not depend on the zone
	}
	before := t.plan.next
	from := c.appended
	if before.name != "" && !before.named {
		from = max(from, t.decided+1) // elapsed time has no zone: what was skipped ahead stays decided
	}
	t.setPlan(from)
	for t.plan.has && !t.plan.open && !t.plan.oneShot && before.named && t.plan.next.named &&
		t.plan.next.shown() < before.shown() {
		t.advance() // its local time was decided in the old zone
	}
	if t.plan.has && !t.plan.open {
		t.reached = max(t.reached, t.plan.next.at-1)
	}
}

// snooze moves a pending one-shot. For any other trigger it adds an occurrence.
func (t *life) snooze(c *command, e *event) {
	name, _ := base(e.occurrence)
	at := c.appended + c.wait
	if c.until != "" {
		at = e.scheduled
		if ms, ok := instantText(c.until); ok {
			at = ms
		}
	}
	if e.scheduled != 0 && e.scheduled != at && t.known {
		t.fail(Recurrence, append(t.eventRecord(e), t.commandRecord(c)...), "snoozed to %s, the command means %s",
			spell(e.scheduled), spell(at))
		at = e.scheduled
	}
	if t.plan.has && t.plan.oneShot {
		// The name is that of its instant, unless something may have been emitted under that
		// name.
		if mark := commandMark("snz", c); t.known && name != spell(at) && name != mark {
			t.fail(Recurrence, append(t.eventRecord(e), t.commandRecord(c)...),
				"a one-shot that waits was snoozed: it is %s or %s now, not %s",
				spell(at), mark, name)
		}
		t.plan.next, t.plan.open, t.plan.snoozed = occurrence{at: at, name: name}, false, true
		t.moved = true
		return
	}
	if t.when.kind != whenSeries { // an earlier snooze is moved
		t.dropSnoozes()
	}
	t.acked("") // ends what is in flight
	t.live[commandMark("snz", c)] = &live{due: at, nominal: at, content: t.body}
}

// acked ends what is in flight, including pending retries: the named occurrence, or all. The name
// has the mark of its life if that is not the first one.
func (t *life) acked(which string) {
	named, mark := base(which)
	ofThisLife := mark == t.lifeMark()
	for name, l := range t.live {
		if l.attempt > 0 && (which == "" || ofThisLife && name == named) {
			l.gone = true
		}
	}
	for name, r := range t.redriven {
		if which == "" || name == which {
			r.gone = true
		}
	}
}

// dropSnoozes ends the pending snoozes.
func (t *life) dropSnoozes() {
	for name, l := range t.live {
		if l.due != 0 && l.attempt == 0 && strings.HasPrefix(name, "snz-") {
			l.gone = true
		}
	}
}

// skipped removes an occurrence: the next one, a later one, or one that a replacement removed.
func (t *life) skipped(e *event) {
	name, _ := base(e.occurrence)
	if l := t.live[name]; l != nil && l.due != 0 {
		l.gone = true
		return
	}
	switch {
	case t.plan.open || !t.plan.has:
	case t.plan.next.name == name:
		t.decide(t.plan.next)
		t.advance()
	default:
		t.skips[name] = true
	}
}

// effectSilent applies a command that causes no event by itself.
func (t *life) effectSilent(c *command) {
	if c.op == "run_now" {
		t.live[commandMark("run", c)] = &live{due: c.appended, nominal: c.appended, content: t.body}
	}
}

// checkPlan compares the plan that an event names with the model's plan.
func (t *life) checkPlan(e *event, c *command) {
	switch e.kind {
	case evRegistered, evReplaced, evRescheduled, evResumed:
	default:
		return
	}
	name, mark := base(e.occurrence)
	p := &t.plan
	switch {
	case e.scheduled == 0 || p.open:
		if p.open && e.scheduled != 0 {
			p.has, p.next = true, occurrence{at: e.scheduled, name: name}
		}
		return
	case p.has && p.next.at == e.scheduled && p.next.name == name && mark == t.lifeMark():
		t.checkLocalTime(e)
		return
	case p.has && p.next.at == e.scheduled && p.next.name == name:
		t.fail(Illegal, t.eventRecord(e), "the occurrence is named %s: this life's mark is %q", e.occurrence,
			t.lifeMark())
		return
	case t.advancedTo(name, e.scheduled, c.appended), t.replannedTo(name, e.scheduled, c.appended):
		return
	case e.kind == evReplaced && t.otherZone(name, e.scheduled, c.appended):
		return
	case t.jitter() > 0 && t.within(e.scheduled, c.appended-t.jitter(), name): // its jitter has yet to pass
	case t.drift || !t.known:
		t.drift = false
	default:
		next := "nothing"
		if p.has {
			next = p.next.name + " at " + spell(p.next.at)
		}
		t.fail(Recurrence, append(t.eventRecord(e), t.commandRecord(c)...), "next is %s at %s, the rule means %s",
			e.occurrence, spell(e.scheduled), next)
	}
	t.believe(name, e.scheduled)
}

// within reports whether the series has an occurrence of this name at this time, searching from
// an instant.
func (t *life) within(at, from int64, name string) bool {
	if t.plan.series == nil {
		return false
	}
	it := t.plan.series.later(from - 1)
	for range 10_000 {
		o, ok := it.next()
		if !ok || o.at > at {
			return false
		}
		if o.at == at && o.name == name {
			return true
		}
	}
	return false
}

// checkLocalTime checks that local_time is the zone's local time at that instant (C6).
func (t *life) checkLocalTime(e *event) {
	if e.local == "" || !t.plan.next.named {
		return
	}
	if want := t.localTime(t.plan.next.at); want != "" && e.local != want {
		t.fail(Recurrence, t.eventRecord(e), "local_time is %s, clocks show %s", e.local, want)
	}
}

// localTime formats an instant as events do, in the trigger's zone.
func (t *life) localTime(at int64) string {
	loc, ok := t.o.Zones.location(t.when.zone)
	if !ok {
		return ""
	}
	w := t.w.clock(t.when.zone, loc).show(floorDiv(at, 1000))
	return wallName(w, at-floorDiv(at, 1000)*1000, false) + "[" + or(t.when.zone, "UTC") + "]"
}
