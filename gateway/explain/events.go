package explain

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// newest is the last event that f accepts; nil if there is none.
func (x *explanation) newest(f func(*topics.Event) bool) *topics.Event {
	for i := len(x.in.Events) - 1; i >= 0; i-- {
		if f(&x.in.Events[i]) {
			return &x.in.Events[i]
		}
	}
	return nil
}

func is(t trigger.FactType) func(*topics.Event) bool {
	return func(e *topics.Event) bool { return e.Type == string(t) }
}

// plans reports whether an event says that the trigger waits for a time anew.
func plans(e *topics.Event) bool {
	switch trigger.FactType(e.Type) {
	case trigger.Registered, trigger.Replaced, trigger.Resumed, trigger.Snoozed:
		return true
	case trigger.Rescheduled: // a new tz release changes no outcome of before
		return e.PreviousTZData == "" || e.PreviousTZData == e.TZData
	}
	return false
}

// ofReceipt reports whether an event is of a receipt, under any prefix of the topics.
func ofReceipt(e *topics.Event) bool {
	topic, _, _ := strings.Cut(e.Source, "/")
	return strings.HasSuffix(topic, "receipts")
}

// commandOrReceipt is what was refused. Both are told by the same type of event.
func commandOrReceipt(e *topics.Event) string {
	if ofReceipt(e) {
		return "receipt"
	}
	return "command"
}

// ignored says why a receipt decided nothing; "" of any other event.
func ignored(e *topics.Event) string {
	switch trigger.FactType(e.Type) {
	case trigger.DeliveryDelivered:
		if e.Reason == trigger.ReasonLate { // it counts all the same: the user has it
			return ""
		}
	case trigger.DeliveryAccepted, trigger.DeliveryFailed, trigger.DeliverySuppressed, trigger.DeliveryRetried,
		trigger.DeliveryPostponed:
	default:
		return ""
	}
	return ignoredWords[e.Reason]
}

// ignoredWords say why, by the reason of the event.
var ignoredWords = map[string]string{
	trigger.ReasonLate:       "it came too late (late)",
	trigger.ReasonUnknown:    "nothing was known of the trigger (unknown)",
	trigger.ReasonNoReceipts: "its channel has no receipts (no_receipts)",
}

// decides reports whether an event says what became of the trigger. alone: nobody else knows,
// because the owner has no state. A refused command does not: what was before it still holds.
func (x *explanation) decides(e *topics.Event, alone bool) bool {
	if plans(e) {
		return true
	}
	switch trigger.FactType(e.Type) {
	case trigger.ErasedFact, trigger.CancelledFact, trigger.PausedFact:
		return alone
	case trigger.CancelTooLate:
		return alone && e.Reason == "in_flight"
	case trigger.Skipped: // with a reason it follows from another event
		return e.Reason == "" && x.skippedNext(instantOf(e.ScheduledAt))
	case trigger.DeliveryAccepted, trigger.DeliveryFailed, trigger.DeliverySuppressed, trigger.DeliveryRetried,
		trigger.DeliveryPostponed, trigger.DeliveryDelivered:
		return ignored(e) == ""
	case trigger.EscalationStopped:
		return e.Reason == "ack"
	case trigger.OccurrenceFired, trigger.OccurrenceExpired, trigger.Misfired, trigger.DeadLettered, trigger.Redriven:
		return true
	}
	return false
}

// Undecided reports whether no event of the input says what became of the trigger: each is a command that changed
// nothing, or was refused, or the like. Earlier events may say it.
func Undecided(in *Input) bool {
	x := &explanation{in: in}
	alone := in.State == nil
	if !alone {
		switch in.State.Status {
		case trigger.Unknown, trigger.Erased, trigger.Paused, trigger.Cancelled:
			alone = true
		}
	}
	if in.Occurrence != "" {
		return x.newest(x.decidesOccurrence) == nil
	}
	return x.newest(func(e *topics.Event) bool { return x.decides(e, alone) }) == nil
}

// skippedNext reports whether a skip left out what would have been next. Of a later day it says nothing yet.
func (x *explanation) skippedNext(at trigger.Instant) bool {
	s := x.in.State
	return at <= x.in.Now || s != nil && (at < s.Series.At || s.Series.At == 0) // 0: nothing follows it
}

// sayEvent explains by one event, and cites it.
func (x *explanation) sayEvent(e *topics.Event) {
	x.cite(e)
	at, worker := x.when(e.OccurredAt), x.worker(e.Channel)
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceFired:
		x.sayFired(e)
	case trigger.DeliveryAccepted:
		x.say(Fired, "Sent: %s accepted attempt %d, %s. No receipt says that it was delivered.", worker,
			max(1, e.Attempt), at)
	case trigger.DeliveryDelivered:
		x.say(Delivered, "Delivered: %s says so of attempt %d, %s.", worker, max(1, e.Attempt), at)
	case trigger.EscalationStopped:
		x.say(Delivered, "Delivered: the user has reacted to it (ack), %s.", at)
	case trigger.DeliverySuppressed:
		x.say(Suppressed, "Not sent: %s decided against it%s, %s.", worker, because(e), at)
	case trigger.DeliveryPostponed:
		x.say(Postponed, "Not sent yet: %s has put it off%s, %s, until %s.", worker, because(e), at,
			x.when(e.ScheduledAt))
	case trigger.DeliveryRetried:
		x.say(Retrying, "Not delivered yet: attempt %d failed at %s%s, %s. The next goes out %s.",
			max(1, e.Attempt-1), worker, because(e), at, x.when(e.ScheduledAt))
	case trigger.DeliveryFailed:
		x.say(Failed, "Not delivered: attempt %d failed at %s%s, %s.", max(1, e.Attempt), worker, because(e), at)
	case trigger.DeadLettered:
		x.say(Failed, "Not delivered: given up after attempt %d%s, %s. It is a dead letter, and a redrive sends it "+
			"again.", max(1, e.Attempt), because(e), at)
	case trigger.Redriven:
		x.say(InFlight, "Redriven %s, as attempt %d: no receipt yet.", at, max(1, e.Attempt))
	default:
		x.sayPlan(e, at)
	}
}

// sayPlan explains by an event about the trigger or its plan.
func (x *explanation) sayPlan(e *topics.Event, at string) {
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceExpired:
		x.sayExpired(e, at)
	case trigger.Misfired:
		x.say(Misfired, "Not sent on time: %s missed, from %s to %s, since nothing fired then; %s.",
			occurrences(max(1, e.Count)), x.when(cmp.Or(e.First, e.ScheduledAt)), x.when(cmp.Or(e.Last, e.ScheduledAt)),
			cmp.Or(misfireWords[e.Reason], "misfire policy "+plain(e.Reason, maxSnippet)))
	case trigger.Skipped:
		x.say(Skipped, "Not sent: the occurrence of %s was left out by a skip, %s.", x.when(e.ScheduledAt), at)
	case trigger.CancelledFact:
		x.say(Cancelled, "Cancelled %s, before it went out: it does not fire.", at)
	case trigger.CancelTooLate:
		x.say(Cancelled, "Cancelled %s, too late: occurrence %s had gone out. It is not tried again.", at,
			x.occurrence(e.Occurrence))
		x.cite(x.newest(is(trigger.OccurrenceFired)))
	case trigger.PausedFact:
		x.say(Paused, "Paused %s: it does not fire until it is resumed.", at)
	case trigger.ErasedFact:
		x.say(Erased, "Erased %s: it does not fire, and its content is gone.", at)
	case trigger.Rejected:
		x.say(Rejected, "Never registered: its command was refused %s, %s: %s.", at, plain(e.Reason, maxSnippet),
			plain(e.Detail, maxSnippet))
	default:
		x.sayScheduled(e)
	}
}

// sayScheduled explains a trigger that waits. e is the event that made the plan, if known.
func (x *explanation) sayScheduled(e *topics.Event) {
	when := x.next
	if when == 0 && e != nil {
		when = instantOf(cmp.Or(e.NextAt, e.ScheduledAt))
	}
	how := ""
	if e != nil {
		how = map[trigger.FactType]string{
			trigger.Replaced: "replaced", trigger.Resumed: "resumed", trigger.Snoozed: "snoozed",
			trigger.Rescheduled: "rescheduled",
		}[trigger.FactType(e.Type)]
	}
	if how != "" {
		how = fmt.Sprintf(", since it was %s %s", how, x.when(e.OccurredAt))
	}
	switch {
	case when == 0:
		x.say(Scheduled, "Scheduled%s, without a time: it waits for what is open.", how)
	case x.in.State == nil:
		x.say(Scheduled, "It was scheduled for %s%s.", x.at(when), how)
	default:
		x.say(Scheduled, "Scheduled: it fires %s%s.", x.at(when), how)
	}
}

func (x *explanation) sayFired(e *topics.Event) {
	late := ""
	if e.LatenessMS != nil && *e.LatenessMS >= slack.Milliseconds() {
		late = fmt.Sprintf(", %s late", Took(milliseconds(*e.LatenessMS)))
	}
	receipt := "No receipt has come for it."
	complete := x.in.State != nil && x.in.Missing == 0 // what a series has in flight is not explained here
	if e.State == trigger.Fired.String() || complete { // else the occurrence would be in flight
		receipt = "This channel has no receipts, so nothing says what became of it."
	}
	x.say(Fired, "Sent %s%s to %s, attempt %d. %s", x.when(e.OccurredAt), late,
		plain(cmp.Or(e.DueTopic, e.Channel), maxSnippet), max(1, e.Attempt), receipt)
}

func (x *explanation) sayExpired(e *topics.Event, at string) {
	by := ""
	if due, then := instantOf(e.ScheduledAt), instantOf(e.OccurredAt); due != 0 && then > due {
		by = fmt.Sprintf(" by %s", Took(then.Sub(due)))
	}
	switch e.Reason {
	case "misfire":
		x.say(Misfired, "Not sent: it was missed%s, and its misfire policy fires nothing that was missed, %s.", by, at)
		x.cite(x.newest(is(trigger.Misfired)))
	default:
		limit := "expires_after"
		if s := x.in.State; s != nil && s.Spec.Expires > 0 {
			limit = fmt.Sprintf("expires_after %s", s.Spec.Expires)
		}
		x.say(Expired, "Not sent: it was too late%s, over its %s, %s.", by, limit, at)
	}
}

// citeAround adds the firing that a receipt is about, and the plan behind a missed one.
func (x *explanation) citeAround(e *topics.Event) {
	if e.Occurrence != "" && !plans(e) {
		x.cite(x.newest(func(f *topics.Event) bool {
			return f.Occurrence == e.Occurrence && is(trigger.OccurrenceFired)(f)
		}))
	}
	if plans(e) { // what became of the occurrence before
		x.cite(x.newest(func(f *topics.Event) bool { return !plans(f) && x.decides(f, false) }))
	}
}

func occurrences(n int) string {
	if n == 1 {
		return "1 occurrence was"
	}
	return fmt.Sprintf("%d occurrences were", n)
}

var misfireWords = map[string]string{
	"fire_all":  "its misfire policy fires all of them, in order",
	"fire_once": "its misfire policy fires the latest, once",
	"skip":      "its misfire policy fires none of them",
}

// because is the reason that a worker gave; "" without an event.
func because(e *topics.Event) string {
	if e == nil {
		return ""
	}
	code, detail := plain(e.Reason, maxSnippet), plain(e.Detail, maxSnippet)
	words := reasonWords[e.Reason]
	switch {
	case words != "" && detail != "":
		return fmt.Sprintf(": %s (%s: %s)", words, code, detail)
	case words != "":
		return fmt.Sprintf(": %s (%s)", words, code)
	case detail != "":
		return fmt.Sprintf(": %s (%s)", cmp.Or(code, "no code"), detail)
	case code != "":
		return ": " + code
	}
	return ", without a reason"
}

// reasonWords say what the codes of our own workers and of the engine mean. Codes of other
// workers are shown as they are.
var reasonWords = map[string]string{
	"opted_out":            "the user has opted out of this channel",
	"notification_type":    "the user does not want notifications of this type",
	"quiet_hours":          "these are the user's quiet hours",
	"capped":               "the user has had as many on this channel as max_per_user allows",
	"duplicate":            "one of this type was sent within dedup_window",
	"preferences_away":     "the store of preferences does not answer",
	"no_address":           "neither the payload nor the preferences have an address",
	"erased":               "the user was erased after it went out",
	"cancelled":            "a check right before the call found it cancelled",
	"breaker_open":         "most calls of the endpoint fail, so its breaker is open",
	"endpoint_busy":        "too many calls to the endpoint wait already",
	"tenant_busy":          "the tenant has its share, and others wait",
	"rate_limited":         "the endpoint's rate is reached",
	"paused":               "an operator has paused the endpoint",
	"provider_paused":      "the provider wants fewer messages",
	"provider_throttled":   "the provider wants fewer messages",
	"provider_unavailable": "the provider does not answer",
	"provider_config":      "the provider refuses our credentials or settings: an operator must act",
	"receipt_timeout":      "no receipt came in time",
	"postponed_too_long":   "it was put off for over 7 days",
	"due_topic":            "its due topic did not take it for 20 minutes",
	"overrun":              "the trigger had over 128 occurrences open",
	"expired":              "it was past expires_after when the worker had it",
	"preferences_unread":   "the store of preferences did not answer, and priority high does not wait for it",
	"invalid_payload":      "its payload is not a notification",
	"invalid_address":      "to is not an address of this channel",
	"invalid_message":      "the provider could not accept the message, so it was not sent",
	"no_provider":          "no provider is set for this kind of address",
	"template_not_found":   "there is no template of its template_id",
	"template_failed":      "its data does not fit the template",
	"no_callback":          "the due event has no URL to call",
	"forbidden_url":        "the settings do not allow its URL any more",
	"forbidden_address":    "the name in its URL leads to an address that may not be called",
	"recheck_failed":       "the trigger's owner did not answer whether it still holds",
	"dns":                  "the name in the URL could not be looked up",
	"tls":                  "no TLS connection came about",
	"connection_refused":   "the connection was refused",
	"connection_reset":     "the connection was cut",
	"connection":           "the network failed",
	"timeout":              "no complete answer came in time",
	"bad_answer":           "the answer was none that is expected",
	"answer_too_large":     "the answer was larger than may be read",
	"http_3xx":             "the endpoint answered with a redirect, which is never followed",
	"http_408":             "the endpoint timed out",
	"http_410":             "the endpoint wants no more calls",
	"http_429":             "the endpoint wants fewer calls",
	"http_4xx":             "the endpoint refused the call",
	"http_503":             "the endpoint is unavailable",
	"http_5xx":             "the endpoint failed",
	"http_other":           "the endpoint answered with no final status",
	"error":                "the worker's handler failed",
	"panic":                "the worker's handler broke off",
	"no_result":            "the worker's handler gave no result",
}
