package check

import "strings"

// byTimer replays an event that no command and no receipt caused.
func (t *life) byTimer(e *event) {
	switch e.kind {
	case evFired:
		t.fire(e)
	case evMisfired:
		t.misfire(e)
	case evExpired:
		t.expire(e)
	case evSkipped:
		t.skipped(e)
	case evCompleted:
		t.seriesDone(e)
	case evRetried, evPostponed, evDeliveryFailed, evDeadLettered, evAccepted, evDelivered, evSuppressed:
		t.delivery(e, nil)
	case evRescheduled: // by a new tz database or calendar
		t.replanned(e)
	case evAdvanced:
		t.advanced(e)
	case evStopped: // too many occurrences are open (overrun)
		if l := t.liveOf(e.occurrence); l != nil {
			l.gone = true
		}
	case evPaused, evFailed:
	default:
		if t.known && !t.loose {
			t.fail(Illegal, t.eventRecord(e), "%s without a command that caused it", e.kind)
		}
	}
	t.legal(e)
	t.adopt(e)
}

// fire replays an occurrence.fired. The occurrence must be due in the model, and must have
// exactly one due record.
func (t *life) fire(e *event) {
	name, mark := base(e.occurrence)
	d := t.emission(e)
	if d != nil {
		t.catchUpTo(d.basis.commands)
	}
	switch {
	case e.attempt > 1:
		t.reemitted(e, d)
	case t.followsPostponement(e.occurrence):
		t.reemitted(e, d)
	case e.step > 0:
		t.firstOfStep(e, d)
	default:
		t.first(e, name, mark, d)
	}
}

// emission returns the due record of an event.
func (t *life) emission(e *event) *due {
	id := t.key + "@" + e.occurrence + "#" + itoa(e.step)
	n := 0
	if l := t.liveOf(e.occurrence); l != nil {
		n = l.postponed
	}
	d := t.emitted[emission{id, e.attempt, n}].nearest(e.append)
	if d == nil {
		if t.v.topics[e.dueTopic] && t.complete(e.append) {
			t.fail(LostFire, t.eventRecord(e),
				"the event says that %s, attempt %d, went out to %s/%d, and it is not there",
				id, e.attempt, e.dueTopic, e.dueAt)
		} else if !t.v.topics[e.dueTopic] {
			t.w.skip("firings into topics that are not in the dump")
		}
		return nil
	}
	d.matched = true
	switch {
	case d.topic != e.dueTopic || d.at.partition != e.dueAt:
		t.fail(Phantom, append(t.eventRecord(e), dueRecord(d)...), "the event says that it went to %s/%d", e.dueTopic,
			e.dueAt)
	case d.scheduled != e.scheduled:
		t.fail(Recurrence, append(t.eventRecord(e), dueRecord(d)...), "ce_time is %s, the event says %s",
			spell(d.scheduled), spell(e.scheduled))
	case d.local != "" && d.local != e.local:
		t.fail(Recurrence, append(t.eventRecord(e), dueRecord(d)...), "ce_wclocaltime is %s, the event says %s",
			d.local,
			or(e.local, "nothing"))
	case d.revision != e.revision && e.step == 0 && e.attempt == 1 && d.postponed == 0:
		t.fail(Phantom, append(t.eventRecord(e), dueRecord(d)...), "ce_wcrevision is %d, the event says %d", d.revision,
			e.revision)
	}
	return d
}

// nearest returns the one that was appended closest to a time, of a due record and those of the same
// emission in earlier lives. An event and its due record are of one transaction; lives are a horizon apart.
func (d *due) nearest(at int64) *due {
	far := func(d *due) int64 { return max(d.append-at, at-d.append) }
	for d != nil && d.earlier != nil && far(d.earlier) < far(d) {
		d = d.earlier
	}
	return d
}

// catchUpTo applies the commands below an offset that were applied without an event.
func (t *life) catchUpTo(offset int64) {
	for t.next < len(t.commands) && t.commands[t.next].at.offset < offset {
		c := t.commands[t.next]
		if t.namedLater(c) {
			return // inOrder checks it against the basis
		}
		t.silent(c)
		t.next++
	}
}

// namedLater reports whether some event names a command.
func (t *life) namedLater(c *command) bool {
	a := t.commandRecord(c)[0]
	b := t.v.h.Prefix + "commands/" + c.first.String()
	for i := range t.events {
		if s := t.events[i].source; s == a || c.claims && s == b {
			return true
		}
	}
	return false
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return spellInt(n)
}

// first replays the first emission of an occurrence.
func (t *life) first(e *event, name, mark string, d *due) {
	p := &t.plan
	if t.known && p.has && !p.open && (p.next.name != name || p.next.at != e.scheduled) {
		if !t.advancedTo(name, e.scheduled, e.scheduled) && e.scheduled <= t.hazy && t.live[name] == nil &&
			!t.done[name] && t.within(e.scheduled, e.scheduled, name) {
			t.believe(name, e.scheduled)
		}
	}
	switch l := t.live[name]; {
	case !t.known:
		t.adoptFired(e, name, d)
	case l != nil && l.due != 0 && !l.gone:
		t.ready(e, l.due)
		l.due = 0
		switch { // the contract does not define a run_now that was edited before it fired
		case strings.HasPrefix(name, "snz-"): // fires with the content in force
			l.content = t.body
		case l.content != t.body:
			l.content = nil
		}
		t.emitFirst(e, l, d)
	case t.status == cancelled || t.status == erased:
		records := t.eventRecord(e)
		if d != nil {
			records = append(records, dueRecord(d)...)
		}
		t.fail(AfterStop, records, "%s fired although the trigger is %s", e.occurrence, t.status)
	case p.has && p.next.name == name && p.next.at == e.scheduled:
		t.onPlan(e, mark, d)
	case p.has && p.open:
		t.decide(occurrence{at: e.scheduled, name: name})
		t.went[name] = true
		t.emitFirst(e, t.newLive(name), d)
		p.has = !p.oneShot
	case t.drift && e.scheduled != 0:
		t.believe(name, e.scheduled)
		t.drift = false
		t.onPlan(e, mark, d)
	case t.done[name]:
		t.fail(Duplicate, t.eventRecord(e), "%s has fired before in this life", e.occurrence)
	default:
		t.offPlan(e, name, d)
	}
}

// offPlan reports a firing that the model has not planned.
func (t *life) offPlan(e *event, name string, d *due) {
	class, want := Phantom, "nothing is planned"
	if t.plan.has {
		want = "next is " + t.plan.next.name + " at " + spell(t.plan.next.at)
	}
	if t.plan.has && t.plan.next.name == name || t.when.kind == whenSeries && !strings.HasPrefix(name, "run-") &&
		!strings.HasPrefix(name, "snz-") {
		class = Recurrence
	}
	records := t.eventRecord(e)
	if d != nil {
		records = append(records, dueRecord(d)...)
	}
	t.fail(class, records, "%s fired for %s, and %s", e.occurrence, spell(e.scheduled), want)
	t.emitFirst(e, t.newLive(name), nil)
	if class == Recurrence {
		t.believe(name, e.scheduled)
		t.decide(occurrence{at: e.scheduled, name: name})
		t.advance()
	}
}

func (t *life) newLive(name string) *live {
	l := &live{content: t.body}
	t.live[name] = l
	return l
}

// onPlan replays a firing of the next occurrence.
func (t *life) onPlan(e *event, mark string, d *due) {
	o := t.plan.next
	if mark != t.lifeMark() && t.known {
		t.fail(Illegal, t.eventRecord(e), "the occurrence is named %s: this life's mark is %q", e.occurrence,
			t.lifeMark())
	}
	if d != nil {
		t.onTime(e, d, o)
	}
	if t.status == paused {
		t.fail(Recurrence, t.eventRecord(e), "%s fired while the trigger is paused", e.occurrence)
	}
	t.decide(o)
	t.went[o.name] = true
	if t.run.left > 0 {
		t.run.left--
	}
	t.emitFirst(e, t.newLive(o.name), d)
	t.plan.has = false
	t.advance()
}

// onTime checks an emission of the plan against the policies: local time, expiry, misfire.
func (t *life) onTime(e *event, d *due, o occurrence) {
	records := append(t.eventRecord(e), dueRecord(d)...)
	w := &t.reg.what
	if o.named {
		if want := t.localTime(o.at); want != "" && d.local != want {
			t.fail(Recurrence, records, "ce_wclocaltime is %q, clocks show %s then", d.local, want)
		}
	}
	offset := int64(0) // jitter; ce_expirytime gives the exact value
	if w.expires > 0 {
		offset = d.expiry - o.at - w.expires
		if d.expiry == 0 || offset < 0 || offset > 0 && offset >= t.jitter() {
			t.fail(Recurrence, records,
				"ce_expirytime is %s: nominal time, jitter and expires_after make it %s or up to %d ms more",
				spell(d.expiry),
				spell(o.at+w.expires), t.jitter())
			offset = 0
		}
		if d.fired > d.expiry && d.expiry != 0 {
			t.fail(Recurrence, records, "emitted at %s, after it had expired at %s", spell(d.fired), spell(d.expiry))
		}
	}
	if d.fired < o.at+offset && d.fired >= o.at {
		t.fail(Early, records, "emitted %d ms before nominal time and jitter", o.at+offset-d.fired)
	}
	late := d.fired - o.at - t.jitter()
	// Under another policy a run is reported again.
	reported := o.at <= t.missedUntil && t.missedBy == or(w.misfire, "fire_once")
	unreported := t.o.Disputed && !reported && !t.plan.snoozed && !t.unsure && t.failed == 0
	if unreported && late > t.o.MisfireAfter.Milliseconds()+misfireSlack {
		t.fail(Recurrence, records, "emitted %d ms late, and no event tells that it was missed", late)
	}
	if w.misfire == "skip" && !t.plan.snoozed && late > t.o.MisfireAfter.Milliseconds()+misfireSlack {
		t.fail(Recurrence, records, "emitted %d ms late under misfire skip", late)
	}
}

// misfireSlack bounds the time in a turn between reading the clock and deciding by it.
const misfireSlack = 5000

// ready checks that an occurrence off the plan is not emitted before it is due (C3).
func (t *life) ready(e *event, due int64) {
	if e.occurred < due-t.o.Epsilon.Milliseconds() {
		t.fail(Early, t.eventRecord(e), "%s went out at %s, it was due at %s", e.occurrence, spell(e.occurred),
			spell(due))
	}
}

// emitFirst checks the first due record of an occurrence against the register and the applied
// commands.
func (t *life) emitFirst(e *event, l *live, d *due) {
	l.attempt, l.revision, l.nominal = 1, e.revision, e.scheduled
	t.wentOut(e.occurred)
	l.waitsFrom(e.occurred)
	if d == nil {
		return
	}
	l.first = d
	if t.inOrder(e, d) {
		t.promised(e, d)
	}
	want := t.revision
	if t.loose {
		want = d.revision
	}
	t.mixed(d, l.content, want)
}

// inOrder checks that ce_wcbasis agrees with the order of events: everything reported before was
// applied, and nothing reported later (C5, C7).
func (t *life) inOrder(e *event, d *due) bool {
	records := append(t.eventRecord(e), dueRecord(d)...)
	if t.reg != nil && d.basis.commands <= t.reg.at.offset {
		t.fail(Phantom, append(records, t.commandRecord(t.reg)...),
			"its basis is commands before %d, but it stands on the register at %d", d.basis.commands, t.reg.at.offset)
		return false
	}
	if t.next > 0 && d.basis.commands <= t.commands[t.next-1].at.offset {
		c := t.commands[t.next-1]
		t.fail(AfterStop, append(records, t.commandRecord(c)...),
			"its basis is commands before %d, and the %s at %d had been applied", d.basis.commands, c.op, c.at.offset)
		return false
	}
	if t.next < len(t.commands) && d.basis.commands > t.commands[t.next].at.offset {
		c := t.commands[t.next]
		class := Illegal
		if c.op == "cancel" || c.op == "erase" {
			class = AfterStop
		}
		t.fail(class, append(records, t.commandRecord(c)...),
			"its basis is commands before %d, but the %s at %d is told of later", d.basis.commands, c.op, c.at.offset)
		return false
	}
	return true
}

// promised checks that a cancel that was acknowledged before the due time wins (C5).
func (t *life) promised(e *event, d *due) {
	if t.next >= len(t.commands) {
		return
	}
	c := t.commands[t.next]
	if c.op != "cancel" || c.fault != "" || c.ifRev > 0 {
		return
	}
	at := d.scheduled - t.o.Epsilon.Milliseconds() // the engine's clock may be ahead by this much
	if c.inTxn || c.append >= at || t.v.stalled(t.home, c.at.offset, at) {
		return
	}
	t.fail(AfterStop, append(append(t.eventRecord(e), dueRecord(d)...), t.commandRecord(c)...),
		"it fired although its cancel was appended %d ms before its time, %s", d.scheduled-c.append, spell(d.scheduled))
}
