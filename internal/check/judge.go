package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// judge replays the trigger's records through the model.
func (t *life) judge() {
	t.w.triggers++
	t.lineUp()
	t.orderDues()
	for i := range t.events {
		t.now = t.events[i].append
		t.readSettings(t.v.settingsAt(t.part, &t.events[i]))
		t.event(&t.events[i])
	}
	t.now = 0
	if n := len(t.part.settings); n > 0 {
		t.readSettings(t.part.settings[n-1].next, 0, t.part.settings[n-1].at)
		t.planOfState()
	}
	t.restOfCommands()
	t.restOfDues()
	t.restOfRefusals()
	t.restOfReceipts()
	t.overdue()
	t.fold()
	if t.waits() {
		t.w.live++
	}
}

// planOfState takes the one of two possible plans that topic state has.
func (t *life) planOfState() {
	if t.perhaps == nil {
		return
	}
	if s := t.lastState(); s != nil && s.Series != nil && t.perhaps.at("", s.Series.At) {
		t.plan, t.perhaps = *t.perhaps, nil
	}
}

// complete reports whether all records that refer to a record appended at this time must be in
// the dump.
func (t *life) complete(at int64) bool { return t.v.complete(at) }

func (v *verifier) complete(at int64) bool { return at <= v.full }

// forwardedWithin is the age in milliseconds above which a command counts from where it was forwarded
// to: seven days, the compaction lag of commands.
const forwardedWithin = 7 * 24 * 60 * 60 * 1000

// lineUp selects the commands that count, in their order. Of the copies of a forwarded command it
// keeps the first, and it drops false claims of forwarding.
func (t *life) lineUp() {
	originals := map[location]*command{}
	for _, c := range t.strays {
		originals[c.at] = c
	}
	taken := map[location]bool{}
	kept := t.commands[:0]
	for _, c := range t.commands {
		if c.claims && !t.copied(c, originals) {
			c.claims, c.first, c.appended = false, c.at, c.append
		}
		if c.claims && taken[c.first] {
			continue // the engine had applied it already
		}
		taken[c.first] = true
		if c.append-c.appended > forwardedWithin { // it counts from where it came to
			c.claims, c.first, c.appended = false, c.at, c.append
		}
		kept = append(kept, c)
	}
	t.commands = kept
	for _, c := range t.strays {
		if !taken[c.at] && t.complete(c.append+t.o.Grace.Milliseconds()) && !t.answered(c) {
			t.fail(LostAck, t.commandRecord(c), "this command stands on partition %d and was never forwarded to %d",
				c.at.partition, t.home)
		}
	}
}

// copied reports whether a command was really forwarded, as far as the dump shows.
func (t *life) copied(c *command, originals map[location]*command) bool {
	if c.first.partition == t.home || int(c.first.partition) >= len(t.v.parts) {
		return false
	}
	if originals[c.first] != nil {
		c.copy = true
		return true
	}
	return c.first.offset < t.v.parts[c.first.partition].from
}

// answered reports whether an event or a rejected record names a command by the wrong partition
// on which it was first appended.
func (t *life) answered(c *command) bool {
	source := t.commandRecord(c)[0]
	return slices.ContainsFunc(t.events, func(e event) bool { return e.source == source }) ||
		slices.ContainsFunc(t.refused, func(x refusal) bool { return x.source == source })
}

func (t *life) commandRecord(c *command) []string {
	return []string{t.v.h.Prefix + "commands/" + c.at.String()}
}

func (t *life) eventRecord(e *event) []string {
	return []string{t.v.h.Prefix + "events/" + e.at.String()}
}

func dueRecord(d *due) []string { return []string{d.topic + "/" + d.at.String()} }

// emission identifies a due record. Each may occur only once.
type emission struct {
	id                 string
	attempt, postponed int
}

// orderDues finds duplicates (C4), and due records that are too early (C3).
func (t *life) orderDues() {
	if len(t.dues) == 0 {
		return
	}
	t.w.fired += int64(len(t.dues))
	sort.SliceStable(t.dues, func(i, j int) bool { return t.dues[i].append < t.dues[j].append })
	seen := make(map[emission]*due, len(t.dues))
	kept := t.dues[:0]
	for _, d := range t.dues {
		k := emission{d.id, d.attempt, d.postponed}
		other := seen[k]
		if other != nil && (d.attempt == 1 || d.append-other.append <= t.o.Horizon.Milliseconds()) {
			t.fail(Duplicate, append(dueRecord(other), dueRecord(&d)...), "%s, attempt %d, is there twice", d.id,
				d.attempt)
			continue
		}
		d.earlier = other // redriven twice; the trigger was forgotten in between
		kept = append(kept, d)
		seen[k] = &kept[len(kept)-1]
		t.early(&kept[len(kept)-1])
	}
	t.dues = kept
	t.emitted = seen
}

// early checks that no due event is before its nominal time: to the millisecond by the engine's
// own clock, and within Epsilon by the broker's clock (C3).
func (t *life) early(d *due) {
	if d.attempt == 1 && d.postponed == 0 {
		late := t.w.late
		if during(t.o.Faults, d.scheduled, d.append) {
			late = t.w.faulty
		}
		late.note(d.append - d.scheduled)
	}
	switch {
	case d.fired != 0 && d.fired < d.scheduled:
		t.fail(Early, dueRecord(d), "emitted %d ms before its time, %s, by its own account", d.scheduled-d.fired,
			spell(d.scheduled))
	case d.append < d.scheduled-t.o.Epsilon.Milliseconds():
		t.fail(Early, dueRecord(d), "appended %d ms before its time, %s", d.scheduled-d.append, spell(d.scheduled))
	}
}

// event replays one event.
func (t *life) event(e *event) {
	if e.seq == 0 && (e.kind == evRejected || e.reason == "unknown") {
		t.strange(e)
		return
	}
	t.sequence(e)
	topic, at, sourced := sourceOf(e.source)
	kind := kindOther
	if sourced {
		kind = kindOf(t.v.h.Prefix, topic)
	}
	switch kind {
	case kindCommands:
		t.byCommand(e, at)
	case kindReceipts:
		t.byReceipt(e, at)
	default:
		t.byTimer(e)
	}
	t.seq, t.loose = e.seq, false
}

// loosen notes that the model may be wrong from here on. It adopts the trigger's state from the
// next event, and the plan from the next event that names one.
func (m *model) loosen() { m.loose, m.drift = true, true }

// strange replays a refusal or a receipt for a key without state. It has no seq, and leaves
// nothing behind.
func (t *life) strange(e *event) {
	if t.status != none && t.known && !t.loose {
		if !t.mayBeForgotten(e.occurred) {
			t.fail(Illegal, t.eventRecord(e), "%s without seq, although the trigger is remembered as %s", e.kind,
				t.status)
			return
		}
		t.reset()
	}
	topic, at, ok := sourceOf(e.source)
	switch {
	case !ok:
	case kindOf(t.v.h.Prefix, topic) == kindReceipts:
		t.strangeReceipt(e, at)
	default:
		t.byCommand(e, at)
	}
}

// strangeReceipt marks a receipt as answered that changes nothing.
func (t *life) strangeReceipt(e *event, at location) {
	if r := t.receiptAt(at); r != nil {
		r.answered = true
	}
	if e.kind == evRejected {
		t.checkRefusal(e, nil)
	}
}

// sequence checks that seq has no gaps. It restarts after the trigger was forgotten (C8).
func (t *life) sequence(e *event) {
	switch {
	case e.seq == t.seq+1:
	case e.seq == 1 && (t.mayBeForgotten(e.occurred) || !t.known):
		t.reset()
	case t.seq == 0 && !t.part.begun:
		t.known, t.status = false, e.prior
		t.loosen()
		if t.status == none {
			t.status = e.state
		}
		t.w.skip("triggers from before the dump, until their next register")
	case e.seq > t.seq+1:
		t.missing += int(e.seq - t.seq - 1)
		t.loosen()
		t.fail(Illegal, t.eventRecord(e), "seq %d follows %d: %d events are missing", e.seq, t.seq, e.seq-t.seq-1)
	default:
		t.loosen()
		t.fail(Illegal, t.eventRecord(e), "seq %d follows %d", e.seq, t.seq)
	}
}

// mayBeForgotten reports whether the horizon of a finished trigger may have ended before an
// instant.
func (t *life) mayBeForgotten(at int64) bool {
	if !finished(t.status) {
		return false
	}
	if t.status == none || at-t.changed >= t.o.Horizon.Milliseconds() {
		return true
	}
	for _, tomb := range t.tombs {
		if tomb >= t.changed && tomb <= at+t.o.Epsilon.Milliseconds() {
			return true
		}
	}
	return false
}

// restOfCommands handles the commands after the last event. Only kinds that need no event may
// have been decided without one.
func (t *life) restOfCommands() {
	for t.next < len(t.commands) && t.commands[t.next].at.offset < t.part.applied {
		t.silent(t.commands[t.next])
		t.next++
	}
}

// silent replays a command without an event.
func (t *life) silent(c *command) {
	if !t.known {
		return
	}
	allowed := t.expect(c)
	t.heard = max(t.heard, c.appended)
	if slices.Contains(allowed, "") {
		t.effectSilent(c)
		return
	}
	if t.missing > 0 { // its event is the missing one
		t.missing--
		t.effect(c, &event{kind: firstKind(allowed), occurred: c.append, revision: -1})
		t.loosen()
		return
	}
	if !t.complete(c.append) {
		return
	}
	t.fail(LostAck, t.commandRecord(c), "%s was passed over: no event tells of it, and the contract wants %s",
		c.describe(), spellAllowed(allowed))
}

func firstKind(allowed []string) string {
	if len(allowed) == 0 || len(allowed[0]) > len(evRejected) && allowed[0][:len(evRejected)] == evRejected {
		return evRejected
	}
	return allowed[0]
}

// restOfDues handles due records without an event.
func (t *life) restOfDues() {
	for i := range t.dues {
		d := &t.dues[i]
		if d.matched || !t.complete(d.append) {
			continue
		}
		if t.missing > 0 { // its event is the missing one
			t.missing--
			continue
		}
		t.blameDue(d)
	}
}

// blameDue reports why a due record without an event is wrong.
func (t *life) blameDue(d *due) {
	stop := t.stoppedBefore(d)
	switch {
	case len(t.commands) == 0 && t.part.begun:
		t.fail(Phantom, dueRecord(d), "nobody ever registered this trigger")
	case !t.part.begun && len(t.events) == 0:
		t.w.skip("due events of triggers from before the dump")
	case stop != nil:
		t.fail(AfterStop, append(dueRecord(d), t.commandRecord(stop)...),
			"%s went out although everything before offset %d had been applied, its %s at %d too",
			d.id, d.basis.commands, stop.op, stop.at.offset)
	default:
		t.fail(Phantom, dueRecord(d), "no event tells of %s, attempt %d", d.id, d.attempt)
	}
}

// stoppedBefore returns the cancel or erase that a due record's basis includes, if no later
// command undid it.
func (t *life) stoppedBefore(d *due) (stop *command) {
	for _, c := range t.commands {
		if c.at.offset >= d.basis.commands {
			break
		}
		switch c.op {
		case "cancel", "erase":
			stop = c
		case "register", "snooze":
			stop = nil
		}
	}
	return stop
}

func (t *life) restOfRefusals() {
	for i := range t.refused {
		x := &t.refused[i]
		if !x.used && t.complete(x.append) && (t.part.begun || t.known) && t.missing == 0 {
			t.fail(Illegal, []string{t.v.h.Prefix + "rejected/" + x.at.String()},
				"no event tells of the refusal of %s (%s)", x.source, x.code)
		}
	}
}

// restOfReceipts checks that every receipt that was read has an event.
func (t *life) restOfReceipts() {
	for i := range t.receipts {
		r := &t.receipts[i]
		if r.answered || r.at.partition != t.home || r.at.offset >= t.part.receipts || !t.complete(r.append) ||
			t.copyAnswered(r) {
			continue
		}
		if t.missing > 0 {
			t.missing--
			continue
		}
		if t.known && t.status != none {
			t.fail(Illegal, []string{t.v.h.Prefix + "receipts/" + r.at.String()},
				"no event tells of the receipt %s of %s",
				r.outcome, r.dueID)
		}
	}
}

// copyAnswered reports whether a receipt was forwarded more than once and an event names another
// copy. The engine takes only one.
func (t *life) copyAnswered(r *receipt) bool {
	return r.claims && slices.ContainsFunc(t.receipts, func(o receipt) bool {
		return o.claims && o.first == r.first &&
			o.answered
	})
}

// overdue reports what should have fired by the end and did not (C2). If the whole partition is
// stuck, that is reported once, as C12.
func (t *life) overdue() {
	if !t.known || t.drift || t.part.stuck {
		return
	}
	until := t.v.end - t.o.Grace.Milliseconds() - t.o.Unread.Milliseconds()
	if p := &t.plan; p.has && !p.open && t.status == pending {
		if due := p.next.at + t.jitter(); due <= until {
			t.fail(LostFire, nil, "%s was due at %s and has not fired %d ms later", p.next.name, spell(due),
				t.v.end-due)
			return
		}
	}
	for name, l := range t.live {
		if t.status == paused && strings.HasPrefix(name, "snz-") {
			continue // a paused trigger fires after the resume
		}
		if l.gone || l.due == 0 || l.due > until || t.status == cancelled || t.status == erased || t.status == failed {
			continue
		}
		t.fail(LostFire, nil, "%s was due at %s and has not gone out %d ms later", name, spell(l.due), t.v.end-l.due)
		return
	}
	for name, r := range t.redriven {
		if !r.gone && r.due != 0 && r.due <= until && !finished(t.status) {
			t.fail(LostFire, nil, "%s was redriven at %s and has not gone out %d ms later", name, spell(r.due),
				t.v.end-r.due)
			return
		}
	}
	t.overdueStep(until)
}

// jitter returns the longest time between the nominal and the due time of an occurrence.
func (t *life) jitter() int64 {
	if t.body == nil {
		return 0
	}
	j := t.body.what.jitter
	if t.body.what.priority == "low" && j == 0 {
		return 86_400_000 // the bound of channels.<name>.jitter_low, which only the engine's settings have
	}
	return j
}

// fold compares the newest state with the model (C9).
func (t *life) fold() {
	if t.states == 0 || !t.known || t.drift || t.failed > 0 {
		return
	}
	s := t.lastState()
	if s == nil {
		if t.lastRaw == nil && !finished(t.status) {
			t.fail(NotTheFold, t.stateRecord(), "topic state has forgotten it, and it is %s", t.status)
		}
		return
	}
	if len(t.events) > 0 && !t.complete(t.events[len(t.events)-1].append) {
		return
	}
	say := func(what string, has, want any) {
		t.fail(NotTheFold, t.stateRecord(), "topic state has %s %v, what happened makes it %v", what, has, want)
	}
	status := statusName(s.Status)
	switch {
	case s.Seq != t.seq && t.status != none:
		say("seq", s.Seq, t.seq)
	case s.Revision != t.revision:
		say("revision", s.Revision, t.revision)
	case status != t.status:
		say("status", status, t.status)
	case s.Series != nil && t.plan.has && !t.plan.open && s.Series.At != t.plan.next.at:
		say("the next occurrence at", spell(s.Series.At), spell(t.plan.next.at))
	case s.Series == nil && t.plan.has && !t.plan.open && (status == pending || status == paused):
		say("no next occurrence, and", "none", spell(t.plan.next.at))
	case s.Spec != nil && !s.Trimmed && t.body != nil && status == pending &&
		string(s.Spec.Payload) != string(t.body.what.payload):
		say("a payload of", fmt.Sprint(len(s.Spec.Payload), " bytes"), fmt.Sprintf("the registered one of %d",
			len(t.body.what.payload)))
	case s.Spec != nil && !s.Trimmed && t.body != nil && status == pending && s.Spec.Channel != t.body.what.channel:
		say("channel", s.Spec.Channel, t.body.what.channel)
	}
}
