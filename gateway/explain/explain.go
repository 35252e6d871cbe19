// Package explain says in one sentence what became of a trigger, and why: the answer to "why did
// this customer not get it?". It is pure. The caller brings the state, the events and the time.
// The API and the command line share it, so both give the same answer.
//
//	explain.go     Explain: which code, from the state and the newest event that decides
//	events.go      which event decides, and what each one says
//	occurrence.go  what became of one occurrence
//	leftout.go     occurrences that a calendar leaves out: no event says so
//	words.go       an event in words        times.go  instants in words, and the bounds of texts
//
// # Source of truth
//
// The owner's state says what the trigger is now. Events say how it came to that. Where they
// differ, the history is behind, and the state wins.
//
// # Promises
//
//   - The same Input gives the same Answer.
//   - Answers are bounded: a sentence has at most 1,600 bytes, evidence at most 6 items.
//   - Texts of users (details, notes, keys) have no control, bidirectional or zero-width
//     characters left. They are still text: whoever shows them as HTML escapes them.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Code says in one word what became of a trigger. Codes are API and never change their meaning.
type Code string

// The codes.
const (
	Scheduled  Code = "scheduled"  // it waits for its time
	Paused     Code = "paused"     // it does not fire until it is resumed
	Overdue    Code = "overdue"    // its time has passed, and it has not fired yet
	InFlight   Code = "in_flight"  // sent; the engine waits for a receipt
	Retrying   Code = "retrying"   // an attempt failed; the next one has a time
	Delivered  Code = "delivered"  // a receipt says delivered, or the user has reacted
	Suppressed Code = "suppressed" // a worker decided not to send it
	Postponed  Code = "postponed"  // a worker sends the same attempt later
	Failed     Code = "failed"     // given up: there is a dead letter, or was
	Cancelled  Code = "cancelled"  // cancelled, before it went out or while it was in flight
	Expired    Code = "expired"    // too late to be of use: expires_after
	Skipped    Code = "skipped"    // left out: by hand, or by a calendar
	Misfired   Code = "misfired"   // missed, and the misfire policy does not fire it
	Fired      Code = "fired"      // sent; no receipt says more than accepted
	Rejected   Code = "rejected"   // never registered: the command was refused
	Erased     Code = "erased"     // its content is gone
	Unknown    Code = "unknown"    // there is no such trigger, and no trace of one
	Restoring  Code = "restoring"  // nobody answers for its partition at this moment
)

// Codes are all codes, in the order of the contract.
var Codes = []Code{
	Scheduled, Paused, Overdue, InFlight, Retrying, Delivered, Suppressed, Postponed, Failed, Cancelled, Expired,
	Skipped, Misfired, Fired, Rejected, Erased, Unknown, Restoring,
}

// Input is all that an explanation depends on.
type Input struct {
	ID         string          // the trigger, as the caller names it
	Occurrence string          // what became of this one is asked for, as events name it; "": of the trigger
	State      *trigger.State  // as its owner has it; nil: the owner has none
	Restoring  string          // why nobody answers for the trigger; "" if State is an answer
	Events     []topics.Event  // the newest of its events, in order
	History    bool            // Events is what the history has; false: there is no history
	Scanned    int64           // without a history: so many records of topic events were read for Events
	Operator   bool            // the answer may say how much there is of all tenants
	Missing    int64           // so many of its newest events are not there yet
	Now        trigger.Instant // no later than what it is compared with was read
	Zones      *calendar.Zones // nil: times are in UTC, and no calendar is considered
}

// Answer is an explanation.
type Answer struct {
	Code     Code
	Sentence string
	Evidence []Evidence
	Next     trigger.Instant // when it fires next; 0: it does not, as things are
}

// Evidence is an event, or what the owner's state has.
type Evidence struct {
	EventID string // "": not an event
	Source  string // topic/partition/offset of what caused it; "timer", or "state" for the owner's state
	Text    string
}

const (
	sourceTimer = "timer"
	sourceState = "state"

	maxEvidence = 6
	maxSentence = 1600 // bytes
	maxSnippet  = 240  // bytes of a text that a user wrote
)

// slack is how much later than its time a trigger may fire before it counts as overdue.
const slack = 2 * time.Second

// Explain says what became of a trigger.
func Explain(in *Input) Answer {
	x := &explanation{in: in, zone: zoneOf(in)}
	if in.State != nil {
		x.next = in.State.NextFire()
	}
	x.decide()
	if in.Missing > 0 {
		behind := "Topic events"
		if in.History {
			behind = "The history"
		}
		x.add("%s is behind: it lacks the newest %d of its events.", behind, in.Missing)
	}
	out := Answer{Code: x.code, Evidence: x.evidence, Next: x.next}
	if x.evidence == nil {
		out.Evidence = []Evidence{}
	}
	out.Sentence = cut(strings.Join(x.sentences, " "), maxSentence)
	return out
}

// explanation is an Answer that is being made.
type explanation struct {
	in        *Input
	zone      *calendar.Zone // nil: UTC
	code      Code
	sentences []string
	evidence  []Evidence
	next      trigger.Instant
}

func (x *explanation) say(code Code, format string, args ...any) {
	x.code = code
	x.add(format, args...)
}

func (x *explanation) add(format string, args ...any) {
	x.sentences = append(x.sentences, fmt.Sprintf(format, args...))
}

// cite adds an event as evidence, once.
func (x *explanation) cite(e *topics.Event) {
	if e == nil || len(x.evidence) >= maxEvidence {
		return
	}
	one := Evidence{EventID: plain(e.EventID, maxSnippet), Source: plain(e.Source, maxSnippet)}
	for i := range x.evidence {
		if x.evidence[i].EventID == one.EventID {
			return
		}
	}
	if one.Source == "" {
		one.Source = sourceTimer
	}
	drawn := x.drawn(e)
	words := strings.TrimSuffix(Words(drawn), " by "+e.Source) // which stands beside the text
	if drawn.Occurrence != "" && strings.HasPrefix(words, drawn.Occurrence+": ") {
		words = "occurrence " + words // else two times stand in a row, and nobody knows which is which
	}
	one.Text = plain(strings.TrimPrefix(x.when(e.OccurredAt)+": "+words, ": "), 3*maxSnippet)
	x.evidence = append(x.evidence, one)
}

// citeState adds what the owner's state says, where no event does. Instants are drawn as in sentences.
func (x *explanation) citeState(format string, args ...any) {
	if len(x.evidence) < maxEvidence {
		for i, arg := range args {
			if instant, ok := arg.(trigger.Instant); ok {
				args[i] = x.at(instant)
			}
		}
		text := plain(fmt.Sprintf(format, args...), 3*maxSnippet)
		x.evidence = append(x.evidence, Evidence{Source: sourceState, Text: text})
	}
}

func (x *explanation) decide() {
	s := x.in.State
	switch {
	case x.in.Restoring != "":
		x.restoring()
		return
	case x.in.Occurrence != "" && (s == nil || s.Status != trigger.Erased):
		x.ofOccurrence()
		x.sayNext()
		return
	case s == nil || s.Status == trigger.Unknown || s.Status == trigger.Erased:
		x.gone()
		return
	case s.Status == trigger.Paused:
		x.paused()
	case s.Status == trigger.Cancelled:
		x.cancelled()
	case x.overdue(), x.open():
	default:
		x.outcome()
	}
	x.mention()
	x.sayNext()
}

// restoring says that nobody answers, and what the history has last.
func (x *explanation) restoring() {
	x.say(Restoring, "The state of %s is unknown at the moment: %s. It does not fire until then; what falls due "+
		"meanwhile fires late.", x.name(), plain(x.in.Restoring, maxSnippet))
	if n := len(x.in.Events); n > 0 {
		x.cite(&x.in.Events[n-1])
	}
}

// gone explains a trigger of which the owner has nothing to show: by its last events.
func (x *explanation) gone() {
	if s := x.in.State; s != nil && s.Status == trigger.Erased {
		x.erased()
		return
	}
	e := x.newest(func(e *topics.Event) bool { return x.decides(e, true) })
	if e == nil {
		e = x.newest(func(e *topics.Event) bool { return is(trigger.Rejected)(e) && !ofReceipt(e) })
	}
	if e == nil {
		x.unknown()
		return
	}
	x.sayEvent(e)
	switch x.code {
	case Rejected, Erased, Unknown:
	default:
		x.add("Its record is gone since: a finished trigger is kept for the horizon.")
		x.mention()
	}
}

func (x *explanation) unknown() {
	e := x.newest(is(trigger.CancelTooLate))
	receipt := x.newest(func(e *topics.Event) bool { return ofReceipt(e) || ignored(e) != "" })
	switch kept := x.in.State != nil; {
	case kept || e != nil:
		x.say(Unknown, "There is no trigger %s. A cancel came for it, and found nothing to cancel.", x.name())
		if x.cite(e); e == nil {
			x.citeState("UNKNOWN since %s, kept until %s", x.in.State.UpdatedAt, x.in.State.ForgetAt)
		}
	case receipt != nil:
		x.say(Unknown, "There is no trigger %s. A receipt came for it, and fits nothing.", x.name())
		x.cite(receipt)
	case x.in.History:
		x.say(Unknown, "There is no trigger %s, and the history has no event of it.", x.name())
	default:
		x.say(Unknown, "There is no trigger %s. Whether there was one is unknown: no history is available.", x.name())
	}
}

func (x *explanation) erased() {
	e := x.newest(is(trigger.ErasedFact))
	if x.cite(e); e != nil {
		x.say(Erased, "Erased %s: it does not fire, and its content is gone.", x.when(e.OccurredAt))
		return
	}
	x.say(Erased, "Erased %s: it does not fire, and its content is gone.", x.at(x.in.State.UpdatedAt))
	x.citeState("ERASED since %s", x.in.State.UpdatedAt)
}

func (x *explanation) paused() {
	s := x.in.State
	why := ""
	if s.Note != "" {
		why = fmt.Sprintf(" (%s)", plain(s.Note, maxSnippet))
	}
	e := x.newest(is(trigger.PausedFact))
	x.cite(e)
	since := ""
	if e != nil {
		since = " since " + x.when(e.OccurredAt)
		if e.Reason != "" {
			why = fmt.Sprintf(" (%s)", plain(strings.TrimSpace(e.Reason+" "+s.Note), maxSnippet))
		}
	} else {
		x.citeState("PAUSED, revision %d%s", s.Revision, why)
	}
	x.say(Paused, "Paused%s%s: it does not fire until it is resumed.", since, why)
}

func (x *explanation) cancelled() {
	e := x.newest(func(e *topics.Event) bool {
		return e.Type == string(trigger.CancelledFact) ||
			e.Type == string(trigger.CancelTooLate) && e.Reason == "in_flight"
	})
	switch {
	case e == nil:
		x.say(Cancelled, "Cancelled %s: it does not fire.", x.at(x.in.State.UpdatedAt))
		x.citeState("CANCELLED since %s", x.in.State.UpdatedAt)
		x.citeFiring(lastFiring(x.in.State))
	default:
		x.sayEvent(e)
	}
}

// lastFiring is the last one that a state has; zero if it has none.
func lastFiring(s *trigger.State) (last trigger.Firing) {
	if n := len(s.Done); n > 0 {
		last = s.Done[n-1]
	}
	return last
}

// citeFiring cites a firing that the state has, if it is one.
func (x *explanation) citeFiring(f trigger.Firing) {
	if f.At != 0 {
		x.citeState("occurrence %s went to %s, partition %d, at %s", x.occurrence(f.Occurrence),
			f.Topic, f.Partition, f.At)
	}
}

// sayFiring explains by a firing of which no event says more.
func (x *explanation) sayFiring(f trigger.Firing) {
	why := "Only a history knows what became of it."
	if x.in.Scanned > 0 && !x.in.History {
		newest := "newest"
		if x.in.Operator {
			newest = fmt.Sprintf("newest %d", x.in.Scanned)
		}
		why = fmt.Sprintf("What became of it is not known: there is no history, and of the %s records of its "+
			"partition of topic events none says it.", newest)
	}
	x.say(Fired, "It went out %s. %s", x.at(f.At), why) // whether it was sent only a worker knows
	x.citeFiring(f)
}

// overdue reports whether something should have fired by now and has not.
func (x *explanation) overdue() bool {
	s := x.in.State
	if s.Status.Finished() {
		return false
	}
	late := x.in.Now.Add(-slack)
	if due := s.Series.At + trigger.Instant(s.Series.Jitter); s.Series.At != 0 && due <= late {
		x.sayOverdue(due, s.Series.Retry, s.Series.RetryAt)
		return true
	}
	for i := range s.Live {
		l := &s.Live[i]
		due := l.Due
		if l.EmitRetry > 0 && (l.Kind == trigger.LiveSnoozed || l.Kind == trigger.LiveRunNow) {
			due = l.Nominal // Due is the next try
		}
		if l.Kind != trigger.LiveInFlight && due <= late {
			x.sayOverdue(due, l.EmitRetry, l.Due)
			return true
		}
	}
	return false
}

func (x *explanation) sayOverdue(due trigger.Instant, refused int, next trigger.Instant) {
	why := "its partition is behind: the list of partitions and the alert WaterclockOverdue say why"
	if refused > 0 {
		why = fmt.Sprintf("its due topic did not take it, %d times so far; the next try is %s", refused, x.at(next))
	}
	ago := Took(x.in.Now.Sub(due).Truncate(time.Second))
	x.say(Overdue, "Not sent yet: it was due %s, %s ago; %s.", x.at(due), ago, why)
	x.citeState("due %s, tries refused %d", due, refused)
	x.cite(x.newest(plans))
	x.next = 0 // it is behind us
}

// open explains the newest occurrence that is sent and not done.
func (x *explanation) open() bool {
	var last *trigger.Live
	for i := range x.in.State.Live {
		l := &x.in.State.Live[i]
		if l.Kind != trigger.LiveInFlight && l.Kind != trigger.LiveRetry && l.Kind != trigger.LiveEscalating {
			continue
		}
		if last == nil || l.Nominal >= last.Nominal {
			last = l
		}
	}
	if last == nil {
		return false
	}
	x.sayLive(last)
	return true
}

// sayLive explains an occurrence off the plan: sent and not done, or one that waits for a time of its own.
func (x *explanation) sayLive(l *trigger.Live) {
	of := func(e *topics.Event) bool { return e.Occurrence == l.Occurrence }
	e := x.newest(func(e *topics.Event) bool { return of(e) && x.decides(e, false) })
	switch late := l.Due <= x.in.Now.Add(-slack); {
	case l.Kind != trigger.LiveSnoozed && l.Kind != trigger.LiveRunNow:
		x.sayOpen(l, e)
	case late && x.in.State.Status == trigger.Paused:
		x.paused()
	case late:
		x.sayOverdue(l.Nominal, l.EmitRetry, l.Due)
	default:
		x.say(Scheduled, "Scheduled: it fires %s.", x.at(l.Due))
	}
	if x.cite(e); e == nil {
		x.citeState("%s, attempt %d, until %s", x.occurrence(l.Occurrence), l.Attempt, l.Due)
	}
	x.cite(x.newest(func(e *topics.Event) bool { return of(e) && is(trigger.OccurrenceFired)(e) }))
}

func (x *explanation) sayOpen(l *trigger.Live, e *topics.Event) {
	kind := trigger.FactType("")
	if e != nil {
		kind = trigger.FactType(e.Type)
	}
	worker := x.worker(x.channelOf(l))
	switch {
	case l.EmitRetry > 0 && (l.Kind == trigger.LiveRetry || l.Kind == trigger.LiveEscalating):
		what := fmt.Sprintf("attempt %d", l.Attempt)
		if l.Kind == trigger.LiveEscalating {
			what = fmt.Sprintf("step %d of its escalation", l.Step+1)
		}
		x.say(Overdue, "Not sent yet: its due topic did not take %s, %d times so far; the next try is %s.", what,
			l.EmitRetry, x.at(l.Due))
	case l.Kind == trigger.LiveInFlight:
		x.say(InFlight, "Sent %s to %s, attempt %d: no receipt yet. Without one by %s it is tried again, or given up.",
			x.sent(l, e), plain(x.channelOf(l), maxSnippet), l.Attempt, x.at(l.Due))
	case l.Kind == trigger.LiveEscalating:
		x.say(InFlight, "Sent, step %d of its escalation: the next step goes out %s unless somebody reacts.",
			l.Step, x.at(l.Due))
	case kind == trigger.DeliveryPostponed, kind == "" && l.Postponed > 0 && l.Attempt == l.AttemptsBeforeRedrive+1:
		x.say(Postponed, "Not sent yet: %s has put it off%s. It is tried again %s, the %s time.", worker,
			because(e), x.at(l.Due), ordinal(l.Postponed+1))
	default:
		x.say(Retrying, "Not delivered yet: attempt %d failed at %s%s. Attempt %d goes out %s.", max(1, l.Attempt-1),
			worker, because(e), l.Attempt, x.at(l.Due))
	}
}

// sent is when an occurrence went out, as far as anything says.
func (x *explanation) sent(l *trigger.Live, e *topics.Event) string {
	if e != nil && e.Type == string(trigger.OccurrenceFired) {
		return x.when(e.OccurredAt)
	}
	for i := range x.in.State.Done {
		if f := &x.in.State.Done[i]; f.Occurrence == l.Occurrence {
			return x.at(f.At)
		}
	}
	return x.at(l.Nominal)
}

func (x *explanation) channelOf(l *trigger.Live) string {
	spec := &x.in.State.Spec
	if l.Was != nil {
		spec = l.Was
	}
	return spec.ChannelOfStep(l.Step)
}

// outcome explains a trigger of which nothing is open: by what a calendar left out, else by
// the newest event that decides, else by what its state has.
func (x *explanation) outcome() {
	e := x.newest(func(e *topics.Event) bool { return x.decides(e, false) })
	if x.leftOut(e) {
		x.cite(e)
		return
	}
	if e != nil && x.agrees(e) {
		x.sayEvent(e)
		x.citeAround(e)
		return
	}
	x.byState()
	x.cite(e)
}

// agrees reports whether an event fits the state. The history may be behind.
func (x *explanation) agrees(e *topics.Event) bool {
	return !x.in.State.Status.Finished() || !plans(e)
}

// byState says what the state alone shows.
func (x *explanation) byState() {
	s := x.in.State
	last := lastFiring(s)
	switch {
	case s.Status == trigger.Expired:
		x.say(Expired, "Not sent: it was too late to be of use, by expires_after or its misfire policy, %s.",
			x.at(s.UpdatedAt))
		x.citeState("EXPIRED since %s", s.UpdatedAt)
	case s.Status == trigger.Failed:
		x.say(Failed, "Not delivered: it was given up %s. The dead letter says why.", x.at(s.UpdatedAt))
		x.citeState("FAILED since %s", s.UpdatedAt)
	case s.Status.Finished() && last.At == 0:
		x.say(Skipped, "Never sent: it ended %s, and nothing of it went out.", x.at(s.UpdatedAt))
		x.citeState("%s since %s", s.Status, s.UpdatedAt)
	case s.Status.Finished() || last.At != 0 && (last.At >= s.LastAppend || firedLast(s, last)):
		x.sayFiring(last)
		return
	default:
		x.sayScheduled(nil)
		x.citeState("%s, revision %d, due %s", s.Status, s.Revision, x.next)
		return
	}
	x.citeFiring(last)
}

// firedLast reports whether a firing is the newest that a series has decided. Commands that change no plan, such as an
// ack or a repeat of a register, may have come since.
func firedLast(s *trigger.State, f trigger.Firing) bool {
	return s.Recurring() && f.Nominal >= s.Series.After
}

// mention adds what happened since and changed nothing: a refused command or receipt, a receipt
// that was ignored, a cancel that came too late.
func (x *explanation) mention() {
	for i := len(x.in.Events) - 1; i >= 0; i-- {
		switch e := &x.in.Events[i]; {
		case is(trigger.Rejected)(e):
			x.add("A later %s was refused %s, %s: %s.", commandOrReceipt(e), x.when(e.OccurredAt),
				plain(e.Reason, maxSnippet), plain(e.Detail, maxSnippet))
			x.cite(e)
			return
		case is(trigger.CancelTooLate)(e):
			if x.code != Cancelled {
				x.add("A cancel came too late, %s.", x.when(e.OccurredAt))
				x.cite(e)
			}
			return
		case ignored(e) != "":
			x.add("A later receipt was ignored %s, since %s.", x.when(e.OccurredAt), ignored(e))
			x.cite(e)
			return
		case is(trigger.Duplicate)(e):
		default:
			return
		}
	}
}

// sayNext says when it fires next, unless the sentence has it.
func (x *explanation) sayNext() {
	switch x.code {
	case Scheduled, Retrying, Postponed, Overdue, Paused:
		return
	}
	if x.next != 0 {
		x.add("Next: %s.", x.at(x.next))
	}
}

func (x *explanation) name() string { return plain(x.in.ID, maxSnippet) }

func (x *explanation) worker(channel string) string {
	return "the " + plain(channel, maxSnippet) + " worker"
}

func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
