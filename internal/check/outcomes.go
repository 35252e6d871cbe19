package check

import (
	"bytes"
	"slices"
)

// followsPostponement reports whether the next emission follows a postponement. It then has the
// attempt number of the one before.
func (t *life) followsPostponement(occurrence string) bool {
	l := t.liveOf(occurrence)
	return l != nil && l.postponed > 0 && l.due != 0 && !l.gone && l.first != nil
}

// reemitted checks a further emission of an occurrence. It must be announced, not early, and with
// the same content (C3, C7, C8).
func (t *life) reemitted(e *event, d *due) {
	l := t.liveOf(e.occurrence)
	if l == nil || l.due == 0 || l.gone {
		if t.known && !t.drift {
			t.fail(Illegal, t.eventRecord(e), "attempt %d of %s went out, and no retry was told", e.attempt,
				e.occurrence)
		}
		return
	}
	if e.attempt != l.attempt {
		t.fail(Illegal, t.eventRecord(e), "attempt %d of %s went out, attempt %d was told", e.attempt, e.occurrence,
			l.attempt)
	}
	t.ready(e, l.due)
	l.due = 0
	l.waitsFrom(e.occurred)
	if d == nil || l.first == nil {
		return
	}
	if !bytes.Equal(d.payload, l.first.payload) || d.revision != l.first.revision || d.scheduled != l.first.scheduled ||
		d.user != l.first.user {
		t.fail(Phantom, append(dueRecord(d), dueRecord(l.first)...),
			"attempt %d differs from attempt 1 in payload, revision, user or nominal time", d.attempt)
	}
	t.notExpired(d)
}

// notExpired checks that an emission is not behind its expiry (C6).
func (t *life) notExpired(d *due) {
	if d.expiry != 0 && d.fired > d.expiry {
		t.fail(Recurrence, dueRecord(d), "emitted at %s, after it had expired at %s", spell(d.fired), spell(d.expiry))
	}
}

// misfire checks a run of missed occurrences. It must begin with the next occurrence, have no
// holes and no extras, and be late (C6).
func (t *life) misfire(e *event) {
	p := &t.plan
	if !t.known || p.open || !p.has {
		if t.known && !t.drift && !p.open {
			t.fail(Recurrence, t.eventRecord(e), "missed %d from %s on, and nothing is planned", e.count,
				spell(e.first))
		}
		return
	}
	if t.drift {
		t.believe(p.next.name, e.first)
		t.drift = false
	}
	t.missedUntil, t.missedBy = max(t.missedUntil, e.last), e.reason
	policy := or(t.reg.what.misfire, "fire_once")
	if p.next.at != e.first {
		if !t.advancedTo("", e.first, e.first) && e.first <= t.hazy {
			t.believe(spell(e.first), e.first)
		}
	}
	switch {
	case p.next.at != e.first:
		t.fail(Recurrence, t.eventRecord(e), "a run of missed occurrences begins at %s, the next one is %s",
			spell(e.first), spell(p.next.at))
		t.believe(spell(e.first), e.first)
	case p.snoozed:
		t.fail(Recurrence, t.eventRecord(e), "a snooze is told as missed, and snoozes never misfire")
	case e.reason != policy:
		t.fail(Recurrence, t.eventRecord(e), "missed occurrences are treated by %s, registered is %s", e.reason, policy)
	case e.occurred-e.last < t.o.MisfireAfter.Milliseconds()-t.o.Epsilon.Milliseconds():
		t.fail(Recurrence, t.eventRecord(e), "%s is told as missed %d ms after its time", spell(e.last),
			e.occurred-e.last)
	}
	if p.oneShot {
		if e.count != 1 || e.last != e.first {
			t.fail(Recurrence, t.eventRecord(e), "%d occurrences of a one-shot are told as missed", e.count)
		}
		return
	}
	t.passRun(e, policy)
}

// passRun walks the run along the rule, and moves the plan to what may still fire.
func (t *life) passRun(e *event, policy string) {
	p := &t.plan
	leave := int64(0) // how many of the run do not fire
	switch policy {
	case "fire_once":
		leave = e.count - 1
	case "skip":
		leave = e.count
	case "fire_all":
		leave = max(0, e.count-int64(t.o.CatchUp))
		t.run = misfireRun{left: e.count - leave, last: e.last, policy: policy}
	}
	start := p.next
	last, ok := t.runOf(p.series, e)
	for _, offset := range t.changes(t.settings, t.newer) {
		if ok {
			break
		}
		newer := t.seriesBelow(offset)
		var found occurrence
		if found, ok = t.runOf(newer, e); ok { // only its first was planned by the older calendars
			last = found
			t.goOn(&plan{has: true, next: start, series: newer, it: newer.later(start.at)}, offset, start.at-1)
		}
	}
	if !ok {
		if t.unsure || e.first <= t.hazy {
			t.w.skip("runs of missed occurrences while a calendar changed")
			t.believeRun(e, policy)
			return
		}
		t.fail(Recurrence, t.eventRecord(e), "%d missed from %s to %s: a run of as many in the rule ends at %s",
			e.count, spell(e.first), spell(e.last), spell(last.at))
		t.believe(spell(e.last), e.last)
		return
	}
	t.mayHavePassed(start, e, leave)
	for ; leave > 0 && p.has; leave-- {
		t.decide(p.next)
		t.advance()
	}
	t.wholeRun(e, policy, last)
}

// mayHavePassed notes the names that do not fire of a run, by those newer calendars that have the same run. The event
// does not tell which calendars were in force: by other ones, other names had the same instants.
func (t *life) mayHavePassed(start occurrence, e *event, leave int64) {
	was := t.plan
	defer func() { t.plan = was }()
	for _, offset := range t.changes(t.settings, t.newer) {
		s := t.seriesBelow(offset)
		if s == nil {
			continue
		}
		t.plan = plan{has: true, next: start, series: s, it: s.later(start.at - 1)}
		if _, ok := t.runOf(s, e); !ok {
			continue
		}
		for n := leave; n > 0; {
			o, ok := t.plan.it.next()
			if !ok || o.at > e.last {
				break
			}
			if t.done[o.name] || t.skips[o.name] {
				continue
			}
			n--
			for _, name := range append(slices.Clone(o.also), o.name) {
				if t.maybe == nil {
					t.maybe = map[string]bool{}
				}
				t.maybe[name] = true
			}
		}
	}
}

// runOf walks a run from the next occurrence on along a series. It returns the last one, and whether the series has the
// run of an event.
func (t *life) runOf(s *series, e *event) (last occurrence, ok bool) {
	n, last := int64(1), t.plan.next
	if s == nil {
		return last, false
	}
	for it := s.later(last.at); n < e.count; {
		o, ok := it.next()
		if !ok {
			break
		}
		if !t.done[o.name] && !t.skips[o.name] {
			n, last = n+1, o
		}
	}
	return last, n == e.count && last.at == e.last
}

// believeRun takes what was missed from an event, by the old calendars or by those that may be in force. What does not
// fire is decided.
func (t *life) believeRun(e *event, policy string) {
	if policy == "fire_all" { // what does not fire of it is not known
		t.hazy = max(t.hazy, e.last)
		return
	}
	upTo := e.last
	if policy == "fire_once" {
		upTo--
	}
	runs := []*series{t.plan.series}
	for _, offset := range t.changes(t.settings, t.newer) {
		if s := t.seriesBelow(offset); s != nil {
			runs = append(runs, s)
		}
	}
	for _, s := range runs {
		for it := s.later(e.first - 1); ; {
			o, ok := it.next()
			if !ok || o.at > upTo {
				break
			}
			t.decide(o)
		}
	}
	t.believe(spell(e.last), e.last)
	if policy == "skip" {
		t.reached = max(t.reached, e.last)
		t.advance()
	}
}

// wholeRun checks that the occurrence after the run was not missed as well.
func (t *life) wholeRun(e *event, policy string, last occurrence) {
	if policy == "fire_all" || t.plan.series == nil {
		return
	}
	o, ok := t.plan.series.later(last.at).next()
	if ok && !t.done[o.name] && !t.skips[o.name] && t.surely(&o) &&
		e.occurred-o.at > t.o.MisfireAfter.Milliseconds()+t.jitter()+misfireSlack {
		t.fail(Recurrence, t.eventRecord(e), "%s was missed as well, and the run ends at %s", spell(o.at),
			spell(e.last))
	}
}

// surely reports whether the calendars that may be in force have an occurrence, too.
func (t *life) surely(o *occurrence) bool {
	for _, offset := range t.changes(t.settings, t.newer) {
		if found, ok := t.findIn(t.seriesBelow(offset), o); !ok || found.at != o.at {
			return false
		}
	}
	return true
}

// expire replays an occurrence that expired before it could fire.
func (t *life) expire(e *event) {
	name, _ := base(e.occurrence)
	t.catchUpToRun(name)
	if l := t.liveOf(e.occurrence); l != nil && (l.due != 0 || e.step > 0) && !l.gone {
		l.gone = true
		return
	}
	p := &t.plan
	if t.known && p.has && !p.open && (p.next.name != name || p.next.at != e.scheduled) {
		_ = t.advancedTo(name, e.scheduled, e.scheduled)
	}
	switch {
	case !t.known || p.open:
		p.has = p.has && !p.oneShot
		return
	case t.drift:
		t.believe(name, e.scheduled)
		t.drift = false
	case !p.has || p.next.name != name || p.next.at != e.scheduled:
		// With fire_once, the last occurrence of the run may have expired.
		if p.oneShot || t.when.kind != whenSeries || !t.done[name] {
			t.fail(Recurrence, t.eventRecord(e), "%s for %s has expired, and next is %s", e.occurrence,
				spell(e.scheduled),
				spell(p.next.at))
		}
		return
	}
	after := t.reg.what.expires
	if e.reason == "expires_after" && (after == 0 || e.occurred < e.scheduled+after-t.o.Epsilon.Milliseconds()) {
		t.fail(Recurrence, t.eventRecord(e), "%s is told as expired %d ms after its time, expires_after is %d ms",
			e.occurrence, e.occurred-e.scheduled, after)
	}
	t.decide(p.next)
	p.has = false
	t.advance()
}

// catchUpToRun applies the run_now that an occurrence is named after, and the commands before it.
// No event reports a run_now until it fires or expires.
func (t *life) catchUpToRun(name string) {
	i := slices.IndexFunc(t.commands, func(c *command) bool {
		return c.op == "run_now" &&
			commandMark("run", c) == name
	})
	for ; t.next <= i; t.next++ {
		t.silent(t.commands[t.next])
	}
}

// seriesDone checks that a series ends when its rule does (C6).
func (t *life) seriesDone(e *event) {
	if t.known && !t.drift && t.plan.has && !t.plan.open {
		t.fail(Recurrence, t.eventRecord(e), "the series is told to have ended, and its rule has %s",
			spell(t.plan.next.at))
	}
	t.plan.has = false
}

// replanned handles a new tz database or calendar. The oracle continues with the old one, so the
// rest of the life is not judged.
func (t *life) replanned(e *event) {
	name, _ := base(e.occurrence)
	if e.reason != "tzdata" && t.known && !t.drift && !t.plan.open && len(t.changes(t.settings, t.newer)) > 0 {
		if !t.replannedTo(name, e.scheduled, e.occurred) {
			changed := t.changes(t.settings, t.newer)
			means := "something else"
			if plans := t.plansAnew(changed[len(changed)-1], e.occurred); len(plans) > 0 {
				means = plans[0].says()
				t.goOn(&plans[0], changed[len(changed)-1], e.occurred)
			}
			t.fail(Recurrence, t.eventRecord(e), "planned anew (%s): next is %s at %s, the calendars mean %s", e.reason,
				e.occurrence, spell(e.scheduled), means)
			t.believe(name, e.scheduled)
		}
		return
	}
	t.w.skip("recurrences after another tz database or calendar came into force")
	t.plan.open, t.plan.has, t.plan.next = true, e.scheduled != 0, occurrence{at: e.scheduled, name: name}
}

// byReceipt replays an event that a receipt caused.
func (t *life) byReceipt(e *event, at location) {
	r := t.receiptAt(at)
	if r == nil {
		if t.part.begun && t.v.topics[t.v.h.Prefix+"receipts"] && t.known && t.complete(e.append) &&
			!t.expiredReceipt(at) {
			t.fail(Illegal, append(t.eventRecord(e), e.source), "%s tells of a receipt that is not in the log", e.kind)
		}
	} else {
		r.answered = true
		t.outcome(e, r)
	}
	if e.kind == evRejected {
		t.checkRefusal(e, nil)
	} else {
		t.delivery(e, r)
	}
	t.legal(e)
	t.adopt(e)
}

// receiptAt returns the receipt at a location, or nil.
func (t *life) receiptAt(at location) *receipt {
	for i := range t.receipts {
		if t.receipts[i].at == at {
			return &t.receipts[i]
		}
	}
	return nil
}

// expiredReceipt reports whether retention may have removed a receipt. Receipts are kept for a
// week.
func (t *life) expiredReceipt(at location) bool {
	for _, f := range t.v.h.files {
		if f.kind == kindReceipts && f.Partition == at.partition {
			return at.offset < f.Start
		}
	}
	return true
}

// answers has the events that each outcome of a receipt permits.
var answers = map[string][]string{
	"delivered":  {evDelivered},
	"accepted":   {evAccepted},
	"failed":     {evDeliveryFailed, evDeadLettered, evFailed, evAdvanced},
	"retry":      {evRetried, evDeliveryFailed, evDeadLettered, evFailed, evAdvanced, evExpired},
	"postponed":  {evPostponed, evDeliveryFailed, evDeadLettered, evFailed, evAdvanced, evExpired},
	"suppressed": {evSuppressed, evAdvanced},
}

func (t *life) outcome(e *event, r *receipt) {
	allowed, known := answers[r.outcome]
	if !known || r.garbled || e.kind == evRejected || e.kind == evStopped || e.kind == evCompleted ||
		slices.Contains(allowed, e.kind) {
		return
	}
	t.fail(Illegal, append(t.eventRecord(e), t.v.h.Prefix+"receipts/"+r.at.String()), "a receipt %s is told as %s",
		r.outcome, e.kind)
}

// delivery replays the result of an emission.
func (t *life) delivery(e *event, r *receipt) {
	l := t.liveOf(e.occurrence)
	if e.kind == evDeadLettered {
		t.deadLettered(e)
	}
	if l == nil || e.decidesNothing() {
		return
	}
	t.ofItsEmission(e, r, l)
	switch e.kind {
	case evRetried:
		if e.attempt != 0 && e.attempt != l.attempt+1 && t.known && !t.drift {
			t.fail(Illegal, t.eventRecord(e), "attempt %d of %s is told to follow attempt %d", e.attempt, e.occurrence,
				l.attempt)
		}
		l.attempt, l.due = e.attempt, e.scheduled
	case evPostponed:
		t.postponedTo(e, r, l)
		l.postponed++
		l.due = e.scheduled
		if holds(e) {
			l.nextAt = 0
		}
	case evAccepted, evSuppressed:
		l.accepted = l.accepted || e.kind == evAccepted
		if e.step == l.step {
			t.endedBefore(e, l)
			l.answered(e)
		}
	case evDeliveryFailed:
		l.failedStep(e)
	case evDeadLettered:
		t.endedBefore(e, l)
		l.gone = true
	case evDelivered, evFailed:
		l.gone = true
	}
}

// ofItsEmission checks that a receipt that decides the emission in flight names that emission
// (C8).
func (t *life) ofItsEmission(e *event, r *receipt, l *live) {
	if r == nil || !r.echoes || r.outcome == "accepted" || r.outcome == "delivered" || l.gone || !t.known {
		return
	}
	if r.postponed != l.postponed {
		t.fail(Illegal, append(t.eventRecord(e), t.v.h.Prefix+"receipts/"+r.at.String()),
			"a receipt of the emission after %d postponements decided the one after %d", r.postponed, l.postponed)
	}
}

// The least and the most that is added to the first postponement. Both double with each further
// one, up to these bounds. See docs/formats/receipts.md.
const (
	leastSpread, lastLeastSpread = 5_000, 300_000
	mostSpread, lastMostSpread   = 10_000, 600_000
)

// postponedTo checks that the next emission is after retry_after and a spread (C3).
func (t *life) postponedTo(e *event, r *receipt, l *live) {
	if r == nil || !t.known || e.scheduled == 0 {
		return
	}
	wait := max(r.retryAfter, 1000)
	least, most := wait, wait
	if r.code != "quiet_hours" {
		doubled := int64(1) << min(l.postponed, 10)
		least += min(leastSpread*doubled, lastLeastSpread)
		most += min(mostSpread*doubled, lastMostSpread)
	}
	if e.scheduled < r.since()+least || e.scheduled > r.append+most {
		t.fail(Recurrence, append(t.eventRecord(e), t.v.h.Prefix+"receipts/"+r.at.String()),
			"postponement %d waits until %s, the receipt and its spread make it %d to %d ms", l.postponed+1,
			spell(e.scheduled), least, most)
	}
}

// deadLettered checks that each delivery.dead_lettered has one dead letter.
func (t *life) deadLettered(e *event) {
	id := t.key + "@" + e.occurrence + "#" + itoa(e.step)
	for i := range t.dead {
		if d := &t.dead[i]; !d.matched && d.id == id {
			d.matched = true
			return
		}
	}
	if t.v.topics[t.v.h.Prefix+"dead-letter"] && t.complete(e.append) {
		t.fail(Illegal, t.eventRecord(e), "%s is told as dead-lettered, and its dead letter is not there", id)
	}
}
