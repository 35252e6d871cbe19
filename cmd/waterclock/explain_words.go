package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func explainPolicies(t map[string]any, add func(about, format string, args ...any)) {
	if jitter := cell(t["jitter"]); jitter != "" {
		add("jitter", "%s", jitterWords(t, jitter))
	}
	if p := cell(t["priority"]); p != "" && p != "normal" {
		add("priority", "%s: among what is due at the same time it goes %s", p,
			map[string]string{"high": "first", "low": "last"}[p])
	}
	if words := misfireWords[cell(t["misfire"])]; words != "" {
		add("misfire", "after an outage or a pause %s (%s)", words, cell(t["misfire"]))
	}
	if words := escalationWords(t); words != "" {
		add("escalation", "%s", words)
	}
	if expires := cell(t["expires_after"]); expires != "" {
		add("expires", "an occurrence that is over %s late does not fire", expires)
	}
	live, _ := t["live"].([]any)
	for _, l := range live {
		if o, ok := l.(map[string]any); ok {
			add("also", "%s", liveWords(o))
		}
	}
}

// escalationWords names the steps, and when each goes out unless something stops them.
func escalationWords(t map[string]any) string {
	steps, _ := t["escalation"].([]any)
	var words []string
	for _, step := range steps {
		s, _ := step.(map[string]any)
		if after := cell(s["after"]); after == "" {
			words = append(words, cell(s["channel"]))
		} else {
			words = append(words, fmt.Sprintf("%s after %s", cell(s["channel"]), after))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", then ") + ", until one is delivered or somebody reacts"
}

// escalationEvent says where an escalation goes, or why it ends; "" of other events.
func escalationEvent(e *topics.Event) string {
	switch trigger.FactType(e.Type) {
	case trigger.EscalationAdvanced:
		step := 0
		if e.Step != nil {
			step = *e.Step
		}
		return fmt.Sprintf("%s: escalated to step %d, channel %s", e.Occurrence, step, e.Channel)
	case trigger.EscalationStopped:
		why := or(escalationEnds[e.Reason], or(e.Reason, "no reason given")) // a newer engine may know others
		return fmt.Sprintf("%s: no further step of its escalation: %s", e.Occurrence, why)
	}
	return ""
}

// escalationEnds say why, by the reason of the event.
var escalationEnds = map[string]string{
	"ack":       "somebody has acknowledged it (ack)",
	"delivered": "a step was delivered (delivered)",
	"cancelled": "the trigger was cancelled (cancelled)",
	"overrun":   "the trigger had too many occurrences under way (overrun)",
}

// liveWords says what a live occurrence waits for.
func liveWords(o map[string]any) string {
	words := map[string]string{
		"snoozed":    "%s was snoozed and fires at %s",
		"in_flight":  "%s is in flight: the engine waits for a receipt until %s",
		"retry":      "%s waits to be sent again at %s",
		"run_now":    "%s was asked for by run and fires at %s",
		"escalating": "%s goes to the next step of its escalation at %s",
	}[cell(o["kind"])]
	if words == "" {
		words = "%s is " + strings.ReplaceAll(cell(o["kind"]), "_", " ") + " until %s"
	}
	return fmt.Sprintf(words, cell(o["occurrence"]), cell(o["at"]))
}

// jitterWords says by how much this occurrence is spread.
func jitterWords(t map[string]any, window string) string {
	nominal, err1 := time.Parse(time.RFC3339, cell(t["fire_at"]))
	next, err2 := time.Parse(time.RFC3339, cell(t["next_fire_at"]))
	if errors.Join(err1, err2) != nil || next.Before(nominal) {
		return fmt.Sprintf("up to %s later than the rule, by a hash of key and occurrence", window)
	}
	return fmt.Sprintf("up to %s later than the rule, by a hash of key and occurrence: this one %s", window,
		next.Sub(nominal))
}

const delayWords = "%s after the broker appended the command"

// snoozeOf is the snooze that decides when a one-shot fires, or fired: the
// newest of what has planned it. Where no history is kept nobody knows.
func snoozeOf(t map[string]any, events []topics.Event) *topics.Event {
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		switch trigger.FactType(e.Type) {
		case trigger.Registered, trigger.Replaced, trigger.Rescheduled:
			return nil
		case trigger.Snoozed:
			if !sameInstant(e.ScheduledAt, cell(t["fire_at"])) &&
				!sameInstant(e.ScheduledAt, cell(t["next_fire_at"])) {
				return nil
			}
			return e
		}
	}
	return nil
}

func sameInstant(x, y string) bool {
	a, err1 := time.Parse(time.RFC3339, x)
	b, err2 := time.Parse(time.RFC3339, y)
	return err1 == nil && err2 == nil && a.Equal(b)
}

// beforeSnooze says when a snoozed one-shot would have fired.
func beforeSnooze(t map[string]any, events []topics.Event) string {
	if delay := cell(t["delay"]); delay != "" {
		return fmt.Sprintf("; before that: "+delayWords, delay)
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch e := &events[i]; trigger.FactType(e.Type) {
		case trigger.Registered, trigger.Replaced, trigger.Rescheduled:
			return "; before that: " + or(e.LocalTime, e.ScheduledAt)
		}
	}
	return ""
}

// inWords says what an event means for when the trigger fires.
func inWords(e *topics.Event) string {
	late := int64(0)
	if e.LatenessMS != nil {
		late = *e.LatenessMS
	}
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceFired:
		return strings.TrimRight(
			fmt.Sprintf("fired %s, %s late %s", e.Occurrence, time.Duration(late)*time.Millisecond,
				bracket(e.Reason)),
			" ",
		)
	case trigger.Misfired:
		return fmt.Sprintf("missed %d, from %s to %s: the misfire policy decided %s", max(e.Count, 1),
			or(e.First, e.ScheduledAt), or(e.Last, e.ScheduledAt), bracket(e.Reason))
	case trigger.Snoozed:
		return fmt.Sprintf("snoozed until %s", e.ScheduledAt)
	case trigger.OccurrenceExpired:
		return fmt.Sprintf("did not fire %s: %s", e.Occurrence, whyExpired(e))
	case trigger.Rescheduled:
		if e.PreviousTZData != "" && e.PreviousTZData != e.TZData {
			return fmt.Sprintf("moved from %s to %s: tz release %s became %s", e.PreviousScheduled, e.ScheduledAt,
				e.PreviousTZData, e.TZData)
		}
		return strings.TrimRight(fmt.Sprintf("moved from %s to %s %s", e.PreviousScheduled, e.ScheduledAt,
			bracket(e.Reason)), " ")
	case trigger.Registered, trigger.Replaced:
		return fmt.Sprintf("%s for %s by %s", strings.TrimPrefix(e.Type, "trigger."), or(e.LocalTime, e.ScheduledAt),
			or(e.Source, "somebody"))
	case trigger.FailedFact:
		return "failed: its only occurrence could not be delivered"
	}
	if words := or(deliveryWords(e), escalationEvent(e)); words != "" {
		return words
	}
	words := e.Type
	for _, s := range []string{e.Occurrence, bracket(e.Reason), e.Detail} {
		if s != "" {
			words += " " + s
		}
	}
	return words
}

// deliveryWords say what was answered to which attempt, and what comes next; "" of
// what is no delivery.
func deliveryWords(e *topics.Event) string {
	answer := strings.TrimSpace(or(e.Reason, "no reason given") + " " + bracket(e.Detail))
	switch trigger.FactType(e.Type) {
	case trigger.DeliveryRetried: // it has the attempt to come
		return fmt.Sprintf("%s: attempt %d was answered %s; attempt %d goes out at %s", e.Occurrence, e.Attempt-1,
			answer, e.Attempt, e.ScheduledAt)
	case trigger.DeliveryPostponed:
		return fmt.Sprintf(
			"%s: attempt %d was postponed, %s; it goes out again at %s",
			e.Occurrence,
			e.Attempt,
			answer,
			e.ScheduledAt,
		)
	case trigger.DeliveryFailed:
		return fmt.Sprintf("%s: attempt %d failed, %s%s", e.Occurrence, e.Attempt, answer, lateWords(e))
	case trigger.DeliverySuppressed:
		return fmt.Sprintf("%s: attempt %d was suppressed, %s%s", e.Occurrence, e.Attempt, answer, lateWords(e))
	case trigger.DeadLettered:
		return fmt.Sprintf(
			"%s: given up after attempt %d, %s; it is a dead letter, and `waterclock redrive` tries it "+
				"again",
			e.Occurrence,
			e.Attempt,
			answer,
		)
	case trigger.Redriven:
		return fmt.Sprintf("%s: redriven from its dead letter, as attempt %d", e.Occurrence, e.Attempt)
	case trigger.DeliveryAccepted, trigger.DeliveryDelivered:
		return strings.TrimSpace(fmt.Sprintf("%s: attempt %d was %s %s", e.Occurrence, max(e.Attempt, 1),
			strings.TrimPrefix(e.Type, "delivery."), bracket(e.Detail))) + lateWords(e)
	}
	return ""
}

func lateWords(e *topics.Event) string {
	if e.Reason == "late" {
		return "; that was too late to count"
	}
	return ""
}

// lastDelivery is how the newest occurrence fares that went out: of the events the
// last that is about a delivery. Where none is kept nobody knows.
func lastDelivery(events []topics.Event) string {
	for i := len(events) - 1; i >= 0; i-- {
		if words := deliveryWords(&events[i]); words != "" {
			return words
		}
		if trigger.FactType(events[i].Type) == trigger.OccurrenceFired {
			return fmt.Sprintf("%s: attempt %d went out at %s; nothing was answered yet", events[i].Occurrence,
				max(events[i].Attempt, 1), events[i].OccurredAt)
		}
	}
	return ""
}

// expiredWords say why, by the reason of the event.
var expiredWords = map[string]string{
	"misfire":       "the misfire policy skips what was missed (misfire)",
	"expires_after": "that is too late to be of use (expires_after)",
}

// whyExpired says by how much an occurrence was late when it was given up, and
// why. The event has no lateness of its own, since nothing was fired.
func whyExpired(e *topics.Event) string {
	why := or(expiredWords[e.Reason], e.Reason) // a newer engine may know other reasons
	at, err1 := time.Parse(time.RFC3339, e.OccurredAt)
	due, err2 := time.Parse(time.RFC3339, e.ScheduledAt)
	if errors.Join(err1, err2) != nil || at.Before(due) {
		return why
	}
	return fmt.Sprintf("it was %s late, and %s", at.Sub(due), why)
}

func bracket(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
