package trigger

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Machine makes all decisions. It has the settings that a decision depends on, and no clock,
// state or randomness. The same state, input and now give the same outcome on every node and
// after every restart.
type Machine struct {
	Horizon      time.Duration // how long a finished trigger is kept; setting dedup.horizon
	MisfireAfter time.Duration // an occurrence later than this is missed; setting misfire_after
	MaxCatchUp   int           // fire_all: occurrences of one missed run that still fire
	Timetable    *Timetable
	Channel      func(name string) Channel
	DuePartition int32 // partition of the due topics

	// CallbackURL refuses a URL that a tenant's triggers may not call. It depends on the URL
	// and settings only, not on DNS or the time. nil refuses none.
	CallbackURL func(tenant, url string) *Error

	// DueTopicOf is the topic and partition of a due event, if they depend on more than its
	// channel. nil means the channel's topic and DuePartition.
	DueTopicOf func(f *Fire) (topic string, partition int32)
}

// dueTopic is where a due event goes.
func (m *Machine) dueTopic(f *Fire) (topic string, partition int32) {
	if m.DueTopicOf != nil {
		return m.DueTopicOf(f)
	}
	return m.Channel(f.Channel).Topic, m.DuePartition
}

// Channel has a channel's settings as far as decisions depend on them.
type Channel struct {
	Topic          string
	Receipts       bool // an occurrence is in flight until a receipt comes
	ReceiptTimeout time.Duration
	Retry          []time.Duration // n entries: n + 1 attempts
	JitterLow      time.Duration   // default jitter of priority low
}

// Outcome is a decision: the next state, the facts and the due events. The pipeline writes
// all of it in one transaction, or none.
type Outcome struct {
	State    *State // the state from now on; the input itself when nothing changed
	Changed  bool   // State must be written
	Facts    []Fact
	Fires    []Fire
	Dead     []DeadLetter
	Rejected *Error

	Delivered string // the channel of the occurrence that a receipt decided; "" if it fits nothing in flight
	TimedOut  string // the channel of the occurrence that no receipt came for in time; "" otherwise
}

// Apply applies one command, or refuses it. s is nil for an unknown key. A refused command
// changes nothing in the state but Seq.
func (m *Machine) Apply(s *State, c *Command, now Instant) Outcome {
	before := m.replanFirst(s, c, now)
	d := m.begin(before.State, now)
	d.actor, d.out.Facts, d.out.Changed = c.Actor, before.Facts, before.Changed
	if err := d.apply(c); err != nil {
		return m.Reject(s, err, c.Actor)
	}
	d.addNote(c, len(before.Facts))
	return d.finish()
}

// replanFirst plans anew what a command goes on with, if its calendars or the tz release are newer than its plan.
func (m *Machine) replanFirst(s *State, c *Command, now Instant) Outcome {
	goesOn := c.Op == OpSkip || c.Op == OpRezone || c.Op == OpRegister || c.Op == OpReschedule
	if s != nil && goesOn && !s.Status.Finished() {
		if newer := m.newerThanPlan(s, now); newer != "" {
			return m.Replan(s, now, newer)
		}
	}
	return Outcome{State: s}
}

// newerThanPlan is what has come into force since s was planned, and may give another plan: "settings" for its
// calendars, "tzdata", or "".
func (m *Machine) newerThanPlan(s *State, now Instant) string {
	switch {
	case s.Series.At == 0 || !s.movable():
	case s.Spec.When.Calendars == nil && s.Series.TZData != m.Timetable.Zones.Release():
		return "tzdata"
	case s.Spec.When.Calendars != nil && !m.begin(s, now).planStands():
		return "settings"
	}
	return ""
}

// Reject adds the fact that a command about s was refused. It is also for commands that could
// not be decoded.
func (m *Machine) Reject(s *State, err *Error, actor string) Outcome {
	f := Fact{Type: Rejected, Reason: string(err.Code), Detail: err.Msg, Actor: actor}
	if s == nil {
		f.State = Unknown
		return Outcome{Facts: []Fact{f}, Rejected: err}
	}
	next := *s
	next.Seq++
	f.Seq, f.Revision, f.State = next.Seq, next.Revision, next.Status
	f.Channel, f.UserID = next.Spec.Channel, next.Spec.UserID
	return Outcome{State: &next, Changed: true, Facts: []Fact{f}, Rejected: err}
}

// decision is a decision in progress: a private copy of the state, and the outcome so far.
type decision struct {
	m     *Machine
	now   Instant
	was   Status
	s     *State // nil until a life begins
	out   Outcome
	actor string

	unplanned *Error // why the series is stranded
}

func (m *Machine) begin(s *State, now Instant) *decision {
	d := &decision{m: m, now: now}
	if s != nil {
		next := *s
		d.s, d.was = &next, s.Status
	}
	return d
}

func (d *decision) finish() Outcome {
	d.out.State = d.s
	for i := range d.out.Facts {
		if f := &d.out.Facts[i]; f.Type.SaysNext() {
			f.Next = d.s.NextPlanned()
		}
	}
	return d.out
}

// apply branches on the op, after it has checked whether a forwarded command is superseded.
func (d *decision) apply(c *Command) *Error {
	if d.superseded(c) {
		return &Error{Code: CodeSuperseded, Msg: "a later command for this key was applied first"}
	}
	if c.IfRevision != 0 && d.comparesRevision(c.Op) && d.s.Revision != c.IfRevision {
		return revisionConflict(d.s.Revision)
	}
	var err *Error
	switch c.Op {
	case OpRegister:
		err = d.register(c)
	case OpCancel:
		err = d.cancel(c)
	case OpErase:
		err = d.erase(c)
	case OpAck:
		err = d.ack(c)
	case OpSnooze:
		err = d.snooze(c)
	case OpRedrive:
		err = d.redrive(c)
	default:
		err = d.change(c)
	}
	if err == nil && d.out.Changed {
		d.s.LastAppend = max(d.s.LastAppend, c.From.Append)
	}
	return err
}

// comparesRevision reports whether if_revision counts for a command. A register has rules of its own. Of what a
// finished trigger takes, only a snooze compares: its repeat would fire a second time.
func (d *decision) comparesRevision(op Op) bool {
	switch {
	case op == OpRegister, d.s == nil:
		return false
	case d.s.Status.Finished():
		return op == OpSnooze && !d.s.reborn()
	}
	return true
}

// skew is how far two brokers' clocks may be apart.
const skew = 1000 // ms

// superseded reports whether a command that was appended later has been applied before this
// one, which was forwarded. Within the brokers' clock skew a cancel wins
// (docs/operations/kafka.md).
func (d *decision) superseded(c *Command) bool {
	if !c.From.Forwarded || d.s == nil {
		return false
	}
	age := d.s.LastAppend - c.From.Append // > 0: something later was applied
	cancelled := d.s.cancelled()
	switch {
	case age > skew:
		return true
	case c.Op == OpCancel || c.Op == OpErase:
		return false
	case cancelled && c.From.Partition == d.s.Life.Partition:
		return false // from the same log, whose order counts
	case cancelled:
		return age >= -skew
	}
	return age > 0
}

// cancelled reports whether the last command was a cancel or an erase.
func (s *State) cancelled() bool {
	return s.Status == Cancelled || s.Status == Unknown || s.Status == Erased
}

func revisionConflict(have int64) *Error {
	if have == 0 {
		return &Error{Code: CodeConflict, Field: "if_revision", Msg: "there is no trigger with this key"}
	}
	return &Error{Code: CodeConflict, Field: "if_revision", Msg: "the trigger is at revision " +
		strconv.FormatInt(have, 10)}
}

// addFact appends a fact about the trigger as it is now.
func (d *decision) addFact(f Fact) *Fact {
	s := d.s
	s.Seq++
	f.Seq, f.Revision = s.Seq, s.Revision
	f.Channel, f.UserID, f.Corr = s.Spec.Channel, s.Spec.UserID, s.Spec.CorrelationID
	f.Zone = s.Spec.When.Zone
	f.State = s.Status
	if d.was != s.Status {
		f.Previous = d.was
		d.was = s.Status
	}
	f.Actor = d.actor
	d.out.Facts = append(d.out.Facts, f)
	d.out.Changed = true
	return &d.out.Facts[len(d.out.Facts)-1]
}

// addFactOf appends a fact about an occurrence. The fact has the content that the occurrence
// was fired with, even if the trigger was replaced since.
func (d *decision) addFactOf(l *Live, f Fact) *Fact {
	f.Occurrence, f.Step, f.Attempt, f.HasStep = l.Occurrence, l.Step, l.Attempt, true
	return d.ofContent(l, d.addFact(f))
}

// ofContent sets a fact's fields from the occurrence's content.
func (d *decision) ofContent(l *Live, f *Fact) *Fact {
	spec := d.content(l)
	f.Channel, f.UserID, f.Corr = spec.ChannelOfStep(l.Step), spec.UserID, spec.CorrelationID
	f.Zone = cmp.Or(zoneOf(l.Local), spec.When.Zone)
	f.FirstFired = d.s.firstFiredOf(l)
	return f
}

// zoneOf is the zone of a local time such as 2026-11-20T09:00:00[America/New_York].
func zoneOf(local string) string {
	_, zone, _ := strings.Cut(strings.TrimSuffix(local, "]"), "[")
	return zone
}

// addPlanFact is a fact about the series' next occurrence.
func (d *decision) addPlanFact(t FactType) *Fact {
	p := &d.s.Series
	return d.addFact(Fact{
		Type: t, Scheduled: p.At, Local: p.Local, TZData: p.TZData, Occurrence: p.Occurrence,
		Tags: d.s.Spec.Tags,
	})
}

// duplicate adds the fact that a command changed nothing.
func (d *decision) duplicate(reason string) *Error {
	d.addFact(Fact{Type: Duplicate, Reason: reason})
	return nil
}

// end makes the state a done record, kept for the horizon.
func (d *decision) end(status Status) {
	s := d.s
	s.Status, s.Note = status, ""
	ended := Series{Start: s.Series.Start, TZData: s.Series.TZData, After: s.Series.After}
	if !s.reborn() { // a register goes on with this life
		ended.Skip, ended.Decided, ended.Begun = s.Series.Skip, s.Series.Decided, s.Series.Begun
	}
	s.Series = ended
	s.Live = nil
	s.ForgetAt = d.now.Add(d.m.Horizon)
	s.UpdatedAt = d.now
	if s.Spec.UserID == "" || (status != Fired && status != Expired) {
		s.trim()
	}
}

// trim drops what only a firing needs. The rest is enough for duplicates, late cancels and
// reads.
func (s *State) trim() {
	s.Spec.Payload, s.Spec.Headers, s.Spec.Callback = nil, nil, nil
	s.Trimmed = true
}

// deriveStatus derives the status of a living trigger from its series and live occurrences.
// It ends a trigger that has nothing left to wait for.
func (d *decision) deriveStatus() {
	s := d.s
	switch {
	case s.Series.stranded():
		d.strand()
	case s.Status == Paused && (s.Series.At != 0 || s.waiting() || (s.Recurring() && len(s.Live) > 0)):
	case s.Series.At != 0 || s.waiting():
		s.Status = Pending
	case len(s.Live) == 0:
		d.complete()
	case s.Recurring():
		s.Status = Pending
	default:
		s.Status = InFlight
	}
	s.UpdatedAt = d.now
	d.out.Changed = true
}

// complete ends a trigger that has nothing left to do.
func (d *decision) complete() {
	recurring := d.s.Recurring()
	d.end(Fired)
	if recurring {
		d.addFact(Fact{Type: Completed})
	}
}

// Recurring reports whether the trigger has a rule or a list of dates.
func (s *State) Recurring() bool { return s.Spec.When.Kind == WhenRecurrence }

// waiting reports whether a snoozed or run_now occurrence is still to fire.
func (s *State) waiting() bool {
	for i := range s.Live {
		if s.Live[i].Kind == LiveSnoozed || s.Live[i].Kind == LiveRunNow {
			return true
		}
	}
	return false
}

// suffix is added to the occurrence ids of a later life, so that they differ from those of an
// earlier life within the horizon.
func (l Life) suffix() string {
	if !l.Later {
		return ""
	}
	return "~" + position(l.Partition, l.Offset)
}

func position(partition int32, offset int64) string {
	return strconv.Itoa(int(partition)) + "-" + strconv.FormatInt(offset, 10)
}

// firstFired is when an occurrence first went out; 0 if that is not known.
func (s *State) firstFired(occurrence string) Instant {
	for i := range s.Done {
		if s.Done[i].Occurrence == occurrence {
			return s.Done[i].At
		}
	}
	return 0
}

// firstFiredOf is firstFired of a live occurrence, also if Done no longer has it, or has a redrive.
func (s *State) firstFiredOf(l *Live) Instant {
	return cmp.Or(l.FirstFired, s.firstFired(l.Occurrence))
}

// bare is an occurrence id without the life's suffix.
func bare(occurrence string) string {
	id, _, _ := strings.Cut(occurrence, "~")
	return id
}
