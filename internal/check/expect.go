package check

import (
	"slices"
	"strings"
)

// onTrust are refusals that settings, quotas or rules decide which the checker
// does not know. They are counted, not judged.
var onTrust = map[string]bool{
	"invalid": true, "invalid_rule": true, "disputed_rule": true, "period_too_short": true,
	"no_occurrences": true,
	"beyond_horizon": true, "too_large": true, "unknown_channel": true, "forbidden_channel": true,
	"forbidden_url": true, "quota_exceeded": true,
	"overloaded": true, "unsupported": true, "misrouted": true, "not_owner": true, "unknown_zone": true,
}

// faultCodes say what is wrong with a command as it is written.
var faultCodes = []string{
	"invalid_key", "not_a_command", "ambiguous_tombstone", "unknown_op", "unknown_field",
	"conflicting_time", "in_the_past",
}

// refused is how expect spells a refusal.
func refused(code string) string { return evRejected + " " + code }

// expect is what the contract lets become of a command, as types of events; of
// a refusal with its code. Nothing at all is "".
func (t *life) expect(c *command) []string {
	switch {
	case c.refusal:
		return []string{evRejected}
	case c.fault != "": // it may have several; which one is told is not judged
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

// superseded: 0 no, 1 perhaps, 2 yes. A forwarded command is, if one of the same
// key with a later first append was applied meanwhile.
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
		return []string{refused("conflict"), refused("not_found"), refused("already_fired")}
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
			out = append(out, evRegistered) // whether a key that may begin a new life exists, the contract does not say
		}
		return out
	}
	if !exists || s == cancelled || s == failed {
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

// expectReplace: other content replaces, unless its only instant has fired in
// this life.
func (t *life) expectReplace(c *command) []string {
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

// expectVerb is the table of docs/SEMANTICS.md, section 6, and the one of
// cancel, section 5.
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

// fits says whether what was told is among what the contract lets be.
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
