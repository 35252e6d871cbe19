package explain

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Words says what an event means for when the trigger fires.
func Words(e *topics.Event) string {
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceFired:
		return strings.TrimRight(
			fmt.Sprintf("fired %s%s, %s %s", e.Occurrence, onChannel(e), lateBy(e), Bracket(e.Reason)), " ")
	case trigger.Misfired:
		return fmt.Sprintf("missed %d, from %s to %s: the misfire policy decided %s", max(e.Count, 1),
			cmp.Or(e.First, e.ScheduledAt), cmp.Or(e.Last, e.ScheduledAt), Bracket(e.Reason))
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
			Bracket(e.Reason)), " ")
	case trigger.Registered, trigger.Replaced:
		words := strings.TrimPrefix(e.Type, "trigger.") + " for " + cmp.Or(e.LocalTime, e.ScheduledAt)
		if by := cmp.Or(e.Actor, e.Source); by != "" {
			words += " by " + by
		}
		return words
	case trigger.FailedFact:
		return "failed: its only occurrence could not be delivered"
	}
	if words := cmp.Or(Delivery(e), escalationEvent(e)); words != "" {
		return words
	}
	return plainly(e)
}

// plainWords say what happened, by the type of an event that has no more to say than its reason and detail.
var plainWords = map[trigger.FactType]string{
	trigger.PausedFact:    "paused",
	trigger.Resumed:       "resumed",
	trigger.CancelledFact: "cancelled",
	trigger.Completed:     "ended: nothing is left to fire",
	trigger.ErasedFact:    "erased",
	trigger.CancelTooLate: "a cancel came too late",
	trigger.Skipped:       "skipped",
	trigger.Duplicate:     "a command came a second time, and changed nothing",
}

// plainly says what happened, then what the event has beside: occurrence, reason and detail.
func plainly(e *topics.Event) string {
	words := cmp.Or(plainWords[trigger.FactType(e.Type)], e.Type) // a newer engine may know others
	if is(trigger.Rejected)(e) {
		words = "a " + commandOrReceipt(e) + " was refused"
	}
	if is(trigger.CancelTooLate)(e) && e.Occurrence != "" {
		words += " for"
	}
	for _, s := range []string{e.Occurrence, Bracket(e.Reason)} {
		if s != "" {
			words += " " + s
		}
	}
	if e.Detail != "" {
		words += ": " + e.Detail
	}
	return words
}

// lateBy says how late something went out. A later attempt was due at the end of its retry wait.
func lateBy(e *topics.Event) string {
	late := int64(0)
	if e.LatenessMS != nil {
		late = *e.LatenessMS
	}
	if e.Attempt > 1 {
		return fmt.Sprintf("attempt %d, %s after its retry was due", e.Attempt, Took(milliseconds(late)))
	}
	return Took(milliseconds(late)) + " late"
}

// Delivery says what was answered to which attempt, and what comes next; "" of
// what is no delivery.
func Delivery(e *topics.Event) string {
	answer := strings.TrimSpace(cmp.Or(e.Reason, "no reason given") + " " + Bracket(e.Detail))
	if why := ignored(e); why != "" && !saysLate(e) {
		return fmt.Sprintf("%s: a receipt (%s) of attempt %d%s was ignored, since %s", e.Occurrence,
			strings.TrimPrefix(e.Type, "delivery."), max(e.Attempt, 1), onChannel(e), why)
	}
	switch trigger.FactType(e.Type) {
	case trigger.DeliveryRetried: // it has the attempt to come
		verb := "was answered"
		if !strings.HasPrefix(e.Reason, "http_") { // nothing answered
			verb = "failed,"
		}
		return fmt.Sprintf("%s: attempt %d%s %s %s; attempt %d goes out at %s", e.Occurrence, e.Attempt-1,
			onChannel(e), verb, answer, e.Attempt, e.ScheduledAt)
	case trigger.DeliveryPostponed:
		return fmt.Sprintf(
			"%s: attempt %d%s was postponed, %s; it goes out again at %s",
			e.Occurrence,
			e.Attempt,
			onChannel(e),
			answer,
			e.ScheduledAt,
		)
	case trigger.DeliveryFailed:
		return fmt.Sprintf("%s: attempt %d%s failed, %s%s", e.Occurrence, e.Attempt, onChannel(e), answer,
			lateWords(e))
	case trigger.DeliverySuppressed:
		return fmt.Sprintf("%s: attempt %d%s was suppressed, %s%s", e.Occurrence, e.Attempt, onChannel(e), answer,
			lateWords(e))
	case trigger.DeadLettered:
		return fmt.Sprintf("%s: given up after attempt %d%s, %s; it is a dead letter, and a redrive tries it again",
			e.Occurrence, e.Attempt, onChannel(e), answer)
	case trigger.Redriven:
		return fmt.Sprintf("%s: redriven from its dead letter, as attempt %d%s", e.Occurrence, e.Attempt,
			onChannel(e))
	case trigger.DeliveryAccepted, trigger.DeliveryDelivered:
		return strings.TrimSpace(fmt.Sprintf("%s: attempt %d%s was %s %s", e.Occurrence, max(e.Attempt, 1),
			onChannel(e), strings.TrimPrefix(e.Type, "delivery."), Bracket(e.Detail))) + lateWords(e)
	}
	return ""
}

// onChannel names the channel of a further step of an escalation, because each step counts its
// attempts from 1.
func onChannel(e *topics.Event) string {
	if e.Step == nil || *e.Step == 0 || e.Channel == "" {
		return ""
	}
	return " on " + e.Channel
}

func lateWords(e *topics.Event) string {
	if e.Reason == trigger.ReasonLate {
		return "; that was too late to count"
	}
	return ""
}

// saysLate reports whether the words of a receipt end with lateWords. Of a retry and of a
// postponement they do not: those tell of an emission to come, and a late receipt leads to none.
func saysLate(e *topics.Event) bool {
	return e.Reason == trigger.ReasonLate && !is(trigger.DeliveryRetried)(e) && !is(trigger.DeliveryPostponed)(e)
}

// LastDelivery is how the newest occurrence fares that went out: of the events the
// last that is about a delivery. Where none is kept nobody knows.
func LastDelivery(events []topics.Event) string {
	for i := len(events) - 1; i >= 0; i-- {
		if words := Delivery(&events[i]); words != "" {
			return words
		}
		if trigger.FactType(events[i].Type) == trigger.OccurrenceFired {
			return fmt.Sprintf("%s: attempt %d%s went out at %s; there is no answer yet", events[i].Occurrence,
				max(events[i].Attempt, 1), onChannel(&events[i]), events[i].OccurredAt)
		}
	}
	return ""
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
		why := cmp.Or(escalationEnds[e.Reason], cmp.Or(e.Reason, "no reason given")) // a newer engine may know others
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

// expiredWords say why, by the reason of the event.
var expiredWords = map[string]string{
	"misfire":       "the misfire policy skips what was missed (misfire)",
	"expires_after": "that is too late to be of use (expires_after)",
}

// whyExpired says by how much an occurrence was late when it was given up, and
// why. The event has no lateness of its own, since nothing was fired.
func whyExpired(e *topics.Event) string {
	why := cmp.Or(expiredWords[e.Reason], e.Reason) // a newer engine may know other reasons
	at, err1 := time.Parse(time.RFC3339, e.OccurredAt)
	due, err2 := time.Parse(time.RFC3339, e.ScheduledAt)
	if errors.Join(err1, err2) != nil || at.Before(due) {
		return why
	}
	return fmt.Sprintf("it was %s late, and %s", Took(at.Sub(due)), why)
}

// Bracket returns a remark in brackets; "" if there is none.
func Bracket(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
