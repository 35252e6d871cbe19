package trigger

// Status is the state of a trigger's series (docs/formats/events.md).
type Status uint8

// The states. From Fired on a trigger is over.
const (
	Pending Status = iota + 1
	Paused
	InFlight
	Fired
	Failed
	Cancelled
	Expired
	Unknown // remembered cancel of a key we never knew
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

// Finished says that nothing is pending or in flight: a done record, kept
// until ForgetAt.
func (s Status) Finished() bool { return s >= Fired }

// State is everything known of one trigger. It is a value in the state topic
// and in the store; Step alone changes it. Which fields are set in which
// status is drawn in doc.go.
type State struct {
	Key      Key
	Status   Status
	Revision int64 // accepted changes, from 1, without gaps, over lives within the horizon
	Seq      int64 // facts told so far

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

// Life is the span from a register of an unknown, cancelled or failed key to
// its end. Its first append is part of the identity of later lives.
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
	MissedUntil Instant // misfires up to here were told; a snoozed one-shot's own instant: it cannot misfire
	Retry       int     // failed attempts to emit the due record; with At 0, to plan (stranded)
	RetryAt     Instant // after a failed attempt: when to try again
}

// Due is when the timer of the next occurrence goes: its nominal instant with
// jitter, or later after a failed attempt to emit it.
func (p *Series) Due() Instant { return max(p.At+Instant(p.Jitter), p.RetryAt) }

// Live is an occurrence that has a timer of its own beside the series.
type Live struct {
	Kind       LiveKind
	Occurrence string
	Nominal    Instant // ce_time
	Local      string
	Due        Instant // when its timer goes
	Step       int
	Attempt    int
	Revision   int64 // fired with
	Accepted   bool
	Was        *Spec // content it was fired with, when the trigger was replaced since
	EmitRetry  int   // failed attempts to emit the due record

	NextStep Instant // when the next step of its escalation goes; 0: none does, or it is held

	Postponed      int     // how often it was postponed, over all attempts: ce_wcpostponed
	FirstSent      Instant // postponed: when its step first went out, or first since it was redriven
	AttemptsBefore int     // made before it was redriven: the retry list begins anew behind them
	FirstFired     Instant // when it first went out, if Done has forgotten that
}

// LiveKind says what a live occurrence waits for.
type LiveKind uint8

// The kinds of live occurrences.
const (
	LiveSnoozed    LiveKind = iota + 1 // to fire at Due for the first time, after a snooze
	LiveInFlight                       // for a receipt; Due is its time-out
	LiveRetry                          // to be emitted again at Due
	LiveRunNow                         // to fire at once, even while paused
	LiveEscalating                     // for its next step, at Due: nothing of it is in flight
)

// MaxLive bounds the live occurrences of one trigger (docs/SEMANTICS.md).
const MaxLive = 128

// IdempotencyKey remembers a register's key and what it said.
type IdempotencyKey struct {
	Key  string
	Hash Hash
}

// keepKeys and keepFirings bound what a State remembers of its past.
const (
	keepKeys    = 16
	keepFirings = 16

	keepRedrives = MaxLive
)

// Firing is one occurrence that went out.
type Firing struct {
	Occurrence string
	At         Instant // emission
	Nominal    Instant
	Topic      string
	Partition  int32
}

// Redrive is a dead letter that was tried again.
type Redrive struct {
	Occurrence string
	Step       int
	Attempt    int // the last one before
}

// Erasure is where an erase stood, for the lives after it: the dead letters of what it
// erased stay closed.
type Erasure struct {
	Revision  int64 // that the erase made; 0: there was none
	Partition int32 // of its first append, or of a later cancel's
	Offset    int64
}

// Timer is one entry of the due index. A State's timers are a function of the
// State (Timers), so the store arms and disarms by comparing before and after.
type Timer struct {
	Due        Instant
	Priority   Priority
	Kind       TimerKind
	Occurrence string
}

// TimerKind says what a timer means when it goes.
type TimerKind uint8

// The kinds of timers.
const (
	TimerSeries TimerKind = iota + 1
	TimerLive
)
