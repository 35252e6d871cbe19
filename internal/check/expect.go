package check

import (
	"slices"
	"strings"
)

// onTrust are refusals that depend on settings, quotas or rules that the checker does not know.
// It counts them and does not judge them.
var onTrust = map[string]bool{
	"invalid": true, "invalid_rule": true, "disputed_rule": true, "period_too_short": true,
	"no_occurrences": true,
	"beyond_horizon": true, "too_large": true, "unknown_channel": true, "forbidden_channel": true,
	"forbidden_url": true, "quota_exceeded": true,
	"overloaded": true, "unsupported": true, "misrouted": true, "not_owner": true, "unknown_zone": true,
}

// faultCodes are the refusals of a malformed command.
var faultCodes = []string{
	"invalid_key", "not_a_command", "ambiguous_tombstone", "unknown_op", "unknown_field",
	"conflicting_time", "in_the_past",
}

// refused is the form in which expect names a refusal.
func refused(code string) string { return evRejected + " " + code }

// expect returns the results that the contract permits for a command: types of events, and for a
// refusal its code too. "" means no event.
func (t *life) expect(c *command) []string {
	switch {
	case c.refusal:
		return []string{evRejected}
	case c.fault != "": // it may have several; any of them may be reported
		out := []string{refused(c.fault)}
		for _, code := range faultCodes {
			out = append(out, refused(code))
		}
		return out
	}
	out := t.expectOp(c)
	if late := t.superseded(c); late == 2 {
		out = []string{refused("superseded")}
	} else if late == 1 {
		out = append(out, refused("superseded"))
	}
	return out
}

// superseded returns 0 for no, 1 for perhaps, and 2 for yes. A forwarded command is superseded if
// a command of the same key with a later first append was applied meanwhile.
func (t *life) superseded(c *command) int {
	const skew = 1000
	switch {
	case !c.claims || t.heard == 0:
		return 0
	case t.newest > c.appended+skew:
		return 2
	case t.newest >= c.appended-skew, t.heard >= c.appended-skew:
		return 1
	}
	return 0
}

func (t *life) expectOp(c *command) []string {
	s := t.status
	if c.op == "register" {
		return t.expectRegister(c)
	}
	if c.ifRev > 0 && c.ifRev != t.revision && s != none {
		out := []string{refused("conflict"), refused("not_found"), refused("already_fired")}
		if finished(s) && c.op != "snooze" { // the contract does not say that what is over compares it
			out = append(out, t.expectVerb(c)...)
		}
		return out
	}
	out := t.expectVerb(c)
	if c.ifRev > 0 && s == none {
		out = append(out, refused("conflict"), refused("not_found"))
	}
	return out
}

func (t *life) expectRegister(c *command) []string {
	s := t.status
	if c.idem != "" {
		if had := t.seen(c.idem); had != nil {
			if had.same(c) {
				return []string{evDuplicate}
			}
			return []string{refused("idempotency_conflict")}
		}
	}
	exists := s != none && s != unknown && s != erased
	if c.ifAbsent && exists || c.ifRev > 0 && c.ifRev != t.revision {
		out := []string{refused("conflict")}
		if c.idem == "" && exists && t.reg != nil && t.reg.same(c) {
			out = append(out, evDuplicate)
		}
		if c.ifAbsent && c.ifRev == 0 && (s == cancelled || s == failed) {
			out = append(out, evRegistered) // the contract does not say whether a key exists that may begin a new life
		}
		return out
	}
	switch {
	case c.patch && s == failed: // it has fired after the patch was made
		return []string{refused("already_fired")}
	case c.patch && (!exists || s == cancelled):
		return []string{refused("not_found")}
	case !exists || s == cancelled || s == failed:
		return []string{evRegistered}
	}
	if c.idem == "" && t.reg != nil && t.reg.same(c) {
		if t.moved {
			return []string{evDuplicate, evReplaced, refused("already_fired")}
		}
		return []string{evDuplicate}
	}
	return t.expectReplace(c)
}

// expectReplace permits a replacement, unless the only instant has fired in this life.
func (t *life) expectReplace(c *command) []string {
	if c.patch && (finished(t.status) || t.status == inFlight) { // it has fired after the patch was made
		return []string{refused("already_fired")}
	}
	if c.when.kind == whenSeries {
		return []string{evReplaced, refused("already_fired")}
	}
	probe := *t
	probe.model.when, probe.model.appended = c.when, c.appended
	probe.setPlan(0)
	if name := probe.plan.next.name; probe.plan.has && !probe.plan.open && (t.went[name] || t.redriven[name] != nil) {
		return []string{refused("already_fired")}
	}
	if probe.plan.has && t.countsAsFired(probe.plan.next.at) {
		return []string{refused("already_fired")}
	}
	return []string{evReplaced}
}

// expectVerb is the table of docs/SEMANTICS.md, section 6, and the one of cancel in section 5.
func (t *life) expectVerb(c *command) []string {
	s, series := t.status, t.when.kind == whenSeries
	over := finished(s)
	flying := s == inFlight && !series
	switch c.op {
	case "cancel":
		return t.expectCancel()
	case "erase":
		return []string{evErased}
	case "ack":
		return []string{"", evStopped, evDelivered, evAccepted, evDuplicate, refused("not_found")}
	case "redrive":
		return t.expectRedrive(c)
	case "snooze":
		return t.expectSnooze()
	}
	switch {
	case over:
		return []string{refused("not_found")}
	case c.op == "run_now":
		return []string{""}
	case c.op == "resume" && s == paused:
		return []string{evResumed}
	case c.op == "resume":
		return []string{evDuplicate}
	case flying && c.op == "skip":
		return []string{refused("already_fired"), refused("invalid")}
	case flying:
		return []string{refused("already_fired")}
	case c.op == "pause" && s == paused:
		return []string{evDuplicate}
	case c.op == "pause":
		return []string{evPaused}
	case c.op == "reschedule":
		return []string{evRescheduled, refused("already_fired")}
	case c.op == "skip" && !series:
		return []string{refused("invalid")}
	case c.op == "skip":
		return []string{evSkipped, evDuplicate, refused("not_found"), refused("already_fired")}
	case c.op == "rezone":
		return t.expectRezone(c)
	}
	return nil
}

func (t *life) expectRezone(c *command) []string {
	if t.when.kind == whenLocal || t.when.kind == whenSeries {
		if c.zone == or(t.when.zone, "UTC") {
			return []string{evDuplicate}
		}
		return []string{evRescheduled, refused("already_fired")}
	}
	return []string{refused("invalid")}
}

func (t *life) expectCancel() []string {
	switch t.status {
	case pending, paused:
		return []string{evCancelled}
	case inFlight:
		return []string{evTooLate, evCancelled}
	case cancelled:
		return []string{evDuplicate}
	}
	return []string{evTooLate}
}

func (t *life) expectSnooze() []string {
	switch t.status {
	case pending, paused, inFlight:
		return []string{evSnoozed}
	case fired, expired:
		if t.body == nil || t.keepsContent() {
			return []string{evSnoozed}
		}
		return []string{refused("already_fired")}
	}
	return []string{refused("not_found")}
}

// fits reports whether the contract permits an event.
func fits(allowed []string, e *event) bool {
	if e.kind != evRejected {
		return slices.Contains(allowed, e.kind)
	}
	return onTrust[e.reason] || slices.Contains(allowed, evRejected) || slices.Contains(allowed, refused(e.reason))
}

func spellAllowed(allowed []string) string {
	out := slices.Clone(allowed)
	if len(out) > len(faultCodes) {
		out = out[:len(out)-len(faultCodes)]
	}
	for i := range out {
		if out[i] == "" {
			out[i] = "nothing"
		}
	}
	return strings.Join(out, " or ")
}
