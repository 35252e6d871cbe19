package trigger

// Status is the state of a trigger's series (docs/formats/events.md).
type Status uint8

// The states. A trigger has ended from Fired on.
const (
	Pending Status = iota + 1
	Paused
	InFlight
	Fired
	Failed
	Cancelled
	Expired
	Unknown // done record of a cancel for an unknown key
	Erased
)

var statusNames = [...]string{
	Pending: "PENDING", Paused: "PAUSED", InFlight: "IN_FLIGHT", Fired: "FIRED",
	Failed: "FAILED", Cancelled: "CANCELLED", Expired: "EXPIRED", Unknown: "UNKNOWN", Erased: "ERASED",
}

func (s Status) String() string {
	if s == 0 || int(s) >= len(statusNames) {
		return ""
	}
	return statusNames[s]
}

// ParseStatus finds a status by its contract name.
func ParseStatus(s string) (Status, bool) {
	for i, n := range statusNames {
		if n != "" && n == s {
			return Status(i), true
		}
	}
	return 0, false
}

// Finished reports whether nothing is pending or in flight. The state is then a done record,
// kept until ForgetAt.
func (s Status) Finished() bool { return s >= Fired }

// State is all that is known about one trigger. It is the value on topic state and in the
// store, and only a Machine changes it. doc.go shows which fields are set in which status.
type State struct {
	Key      Key
	Status   Status
	Revision int64 // accepted changes, from 1, without gaps, over lives within the horizon
	Seq      int64 // number of facts so far

	Life Life
	Spec Spec
	Hash Hash

	Series Series
	Live   []Live // at most MaxLive

	Keys     []IdempotencyKey // the last 16
	Done     []Firing         // what has fired in this life, the last 16
	Redriven []Redrive        // dead letters that were redriven, the last 128
	Erasure  Erasure          // of a life after an erase

	LastAppend Instant // first append of the last applied command
	CreatedAt  Instant
	UpdatedAt  Instant
	ForgetAt   Instant // finished: when the done record ends
	Note       string  // of a pause
	Trimmed    bool    // finished without user_id: Spec's content was dropped
}

// Life is the span from a register of an unknown, cancelled, failed or erased key to its end.
// The register's partition and offset are part of the occurrence ids of later lives.
type Life struct {
	Partition int32
	Offset    int64
	Later     bool // not the first within the horizon: occurrence ids carry ~partition-offset
}

// Series is the plan: the next scheduled occurrence of a one-shot or a rule.
type Series struct {
	At          Instant // nominal instant of the next occurrence; 0: ended
	Occurrence  string  // its id, with the life's suffix
	Local       string  // 2026-11-20T09:00:00[America/New_York]; "" for elapsed time
	Start       string  // recurrence: the fixed start, so that edits keep the phase
	After       Instant // recurrence: everything at or before it is decided
	TZData      string  // release the instant was resolved with
	Skip        []string
	Jitter      int64   // ms added to At, by hash of key and occurrence
	MissedUntil Instant // misfires up to here have their fact; a snoozed one-shot's own instant
	Retry       int     // failed attempts to emit the due record; with At 0: it is stranded
	RetryAt     Instant // after a failed attempt: when to try again

	// Of a rule whose days a calendar moves, or that has moved to another zone: the names that are decided, and those
	// that had passed when the rule began, which are not.
	Decided, Begun []NameStep
}

// Due is when the next occurrence's timer goes off: its nominal instant plus jitter, or later
// after a failed attempt to emit it.
func (p *Series) Due() Instant { return max(p.At+Instant(p.Jitter), p.RetryAt) }

// Live is an occurrence that has a timer of its own beside the series.
type Live struct {
	Kind       LiveKind
	Occurrence string
	Nominal    Instant // ce_time
	Local      string
	Due        Instant // when its timer goes off
	Step       int
	Attempt    int
	Revision   int64 // revision of the trigger that it was fired with
	Accepted   bool
	Was        *Spec // content it was fired with, when the trigger was replaced since
	EmitRetry  int   // failed attempts to emit the due record

	NextStep Instant // when the next step of its escalation goes; 0: there is none, or it is not yet planned

	Postponed             int     // how often it was postponed, over all attempts: ce_wcpostponed
	FirstSent             Instant // if postponed: first emission of its step, counted anew after a redrive
	AttemptsBeforeRedrive int     // the retry list begins anew after these
	FirstFired            Instant // its first emission, if Done no longer has it
	Note                  string  // of a run_now that has not gone out: the detail of the event when it does
}

// LiveKind says what a live occurrence waits for.
type LiveKind uint8

// The kinds of live occurrences.
const (
	LiveSnoozed    LiveKind = iota + 1 // snoozed: fires at Due for the first time
	LiveInFlight                       // waits for a receipt; Due is its time-out
	LiveRetry                          // emitted once more at Due
	LiveRunNow                         // fires at once, even while paused
	LiveEscalating                     // waits for its next step at Due; nothing of it is in flight
)

// MaxLive bounds the live occurrences of one trigger (docs/SEMANTICS.md).
const MaxLive = 128

// IdempotencyKey is the idempotency key of a register with its content hash.
type IdempotencyKey struct {
	Key  string
	Hash Hash
}

// keepKeys and keepFirings bound the history inside a State.
const (
	keepKeys    = 16
	keepFirings = 16

	keepRedrives = MaxLive
)

// Firing is one occurrence that has fired.
type Firing struct {
	Occurrence string
	At         Instant // emission
	Nominal    Instant
	Topic      string
	Partition  int32
}

// Redrive is a dead letter that was redriven.
type Redrive struct {
	Occurrence string
	Step       int
	Attempt    int // the last attempt before the redrive
}

// Erasure is where an erase stood, for the lives after it: the dead letters of what it
// erased stay closed.
type Erasure struct {
	Revision  int64 // that the erase made; 0: there was none
	Partition int32 // of its first append, or of a later cancel's
	Offset    int64
}
