package trigger

import "strings"

// FactType is the type of an event (docs/formats/events.md).
type FactType string

// The types of facts.
const (
	Registered         FactType = "trigger.registered"
	Replaced           FactType = "trigger.replaced"
	Rescheduled        FactType = "trigger.rescheduled"
	PausedFact         FactType = "trigger.paused"
	Resumed            FactType = "trigger.resumed"
	CancelledFact      FactType = "trigger.cancelled"
	Completed          FactType = "trigger.completed"
	FailedFact         FactType = "trigger.failed"
	ErasedFact         FactType = "trigger.erased"
	CancelTooLate      FactType = "cancel.too_late"
	Snoozed            FactType = "occurrence.snoozed"
	Skipped            FactType = "occurrence.skipped"
	OccurrenceFired    FactType = "occurrence.fired"
	OccurrenceExpired  FactType = "occurrence.expired"
	Misfired           FactType = "occurrence.misfired"
	DeliveryAccepted   FactType = "delivery.accepted"
	DeliveryDelivered  FactType = "delivery.delivered"
	DeliveryFailed     FactType = "delivery.failed"
	DeliveryRetried    FactType = "delivery.retried"
	DeliveryPostponed  FactType = "delivery.postponed"
	DeliverySuppressed FactType = "delivery.suppressed"
	DeadLettered       FactType = "delivery.dead_lettered"
	Redriven           FactType = "delivery.redriven"
	EscalationAdvanced FactType = "escalation.advanced"
	EscalationStopped  FactType = "escalation.stopped"
	Duplicate          FactType = "command.duplicate"
	Rejected           FactType = "command.rejected"
)

// Fact is one thing that happened to one trigger: an event that is not encoded yet. Zero fields are absent.
type Fact struct {
	Type       FactType
	Revision   int64
	Seq        int64
	Channel    string
	UserID     string
	Scheduled  Instant
	Local      string
	Zone       string
	TZData     string
	Occurrence string
	Step       int
	Attempt    int
	HasStep    bool // the fact is about an occurrence, so Step and Attempt count
	State      Status
	Previous   Status
	Lateness   int64 // ms; only in occurrence.fired
	HasLate    bool
	Reason     string
	Detail     string
	Actor      string
	DueTopic   string
	DuePart    int32
	HasDue     bool
	Corr       string
	Tags       []Tag
	Spec       *Spec // registered, replaced: for the payload
	Rule       *Spec // registered, replaced, rescheduled: when and by which policies it fires from now on
	Count      int
	First      Instant
	Last       Instant

	FirstFired        Instant // when the occurrence it is about first went out
	PreviousScheduled Instant
	PreviousTZData    string

	Due Instant // occurrence.fired: nominal plus jitter; package topics does not write it

	Next Instant // if Type.SaysNext: State.NextPlanned after the decision
}

// SaysNext reports whether facts of this type say what is planned next. Only decisions that
// have such a fact change it.
func (t FactType) SaysNext() bool {
	switch t {
	case DeliveryFailed, DeadLettered: // of an occurrence that was never emitted
		return true
	}
	return strings.HasPrefix(string(t), "trigger.") || strings.HasPrefix(string(t), "occurrence.")
}
