package check

import (
	"slices"
	"strings"
)

// after has the states in which an event may leave a trigger; "=" is the state before it. From
// docs/formats/events.md.
var after = map[string][]string{
	evRegistered:     {pending},
	evReplaced:       {pending, paused, inFlight},
	evRescheduled:    {"=", pending},
	evPaused:         {paused},
	evResumed:        {pending, inFlight},
	evCancelled:      {cancelled},
	evCompleted:      {fired},
	evFailed:         {failed},
	evErased:         {erased},
	evTooLate:        {"=", cancelled, unknown},
	evSnoozed:        {"=", pending},
	evSkipped:        {"="},
	evFired:          {"=", fired, inFlight},
	evExpired:        {"=", expired, inFlight},
	evMisfired:       {"="},
	evAccepted:       {"=", fired},
	evDelivered:      {"=", fired},
	evSuppressed:     {"=", fired},
	evDeliveryFailed: {"=", failed, inFlight},
	evRetried:        {"="},
	evPostponed:      {"="},
	evDeadLettered:   {"=", failed},
	evRedriven:       {"=", inFlight},
	evAdvanced:       {"="},
	evStopped:        {"=", fired, cancelled},
	evDuplicate:      {"="},
	evRejected:       {"=", unknown, erased},
}

// legal checks an event against the state machine: previous state, state, revision (C8).
func (t *life) legal(e *event) {
	if !t.known || t.loose {
		return
	}
	allowed, kindKnown := after[e.kind]
	if !kindKnown {
		t.w.skip("events of types the checker does not know")
		return
	}
	was := t.status
	switch {
	case e.prior == pending && was == inFlight && e.kind == evFired && strings.HasPrefix(e.occurrence, "run-"):
		// A run_now was pending, and no event had reported it. Older engines then reported
		// IN_FLIGHT for a receipt.
	case e.prior != "" && e.prior != was:
		t.fail(Illegal, t.eventRecord(e), "%s: previous_state is %s, it was %s", e.kind, e.prior, or(was, "not known"))
	case e.state != "" && !t.mayBe(allowed, e, was):
		t.fail(Illegal, t.eventRecord(e), "%s leads from %s to %s", e.kind, or(was, "nothing"), e.state)
	case e.revision != t.revision && !(e.kind == evRescheduled && e.revision == t.revision+1 && e.source == "") &&
		e.revision != -1:
		t.fail(Illegal, t.eventRecord(e), "%s has revision %d, accepted changes make it %d", e.kind, e.revision,
			t.revision)
	}
}

func (t *life) mayBe(allowed []string, e *event, was string) bool {
	if e.kind == evTooLate && e.reason != "in_flight" && was != none && e.state == cancelled {
		return was == cancelled
	}
	if e.kind == evFired && t.when.kind == whenSeries && e.state != was {
		return e.state == fired && !t.plan.has || t.plan.open
	}
	if l := t.liveOf(e.occurrence); l != nil && l.escalates() && e.state == fired &&
		(e.kind == evExpired || e.kind == evDeliveryFailed) {
		return true // an earlier step was accepted
	}
	if was == inFlight && e.state == pending && e.occurrence != "" && t.runWaits() {
		return true // no event reports a run_now before it fires
	}
	if slices.Contains(allowed, e.state) {
		return e.kind != evRejected || e.state == was || was == none && e.state == unknown
	}
	return slices.Contains(allowed, "=") && (e.state == was || was == none && e.state == unknown)
}

// runWaits reports whether a run_now may be pending that no event has reported.
func (t *life) runWaits() bool {
	return slices.ContainsFunc(t.commands, func(c *command) bool {
		return c.op == "run_now" &&
			!t.went[commandMark("run", c)]
	})
}

// adopt takes the trigger's state from an event. An illegal state was reported already.
func (t *life) adopt(e *event) {
	if e.state != "" && !(e.kind == evRejected && t.status == none) {
		if e.state != t.status || finished(e.state) && ends(e) {
			t.changed = e.occurred
		}
		t.status = e.state
	}
	if e.revision > 0 {
		t.revision = e.revision
	}
}

// checkNext compares next_at with the plan that the same event names. It may be later than the
// nominal instant by at most the jitter. Events of older engines have no next_at.
func (t *life) checkNext(e *event) {
	switch {
	case e.next == 0:
	case e.state != pending && e.state != inFlight && e.state != "":
		t.fail(Illegal, t.eventRecord(e), "%s says that %s is next, and that the trigger is %s", e.kind,
			spell(e.next), e.state)
	case e.kind != evRegistered && e.kind != evReplaced || e.scheduled == 0:
	case e.next > e.scheduled+t.jitter(), e.kind == evRegistered && e.next < e.scheduled: // a snooze may come first
		t.fail(Illegal, t.eventRecord(e), "%s says that %s is next, its plan is %s and its jitter at most %d ms",
			e.kind, spell(e.next), spell(e.scheduled), t.jitter())
	}
}

// ends reports whether an event restarts the horizon of a finished trigger. An event that only
// reports something too late does not.
func ends(e *event) bool {
	switch {
	case strings.HasPrefix(e.kind, "command."), e.decidesNothing():
		return false
	case e.kind == evTooLate:
		return e.state == unknown
	}
	return true
}

// adoptFired replays a firing of a trigger whose beginning the model does not know.
func (t *life) adoptFired(e *event, name string, d *due) {
	l := &live{attempt: 1, revision: e.revision, nominal: e.scheduled, first: d}
	t.live[name] = l
}
