package trigger

import (
	"cmp"
	"slices"
	"strconv"
)

// Fire is a due event to emit, as far as the state machine decides it. Package topics makes
// the record.
type Fire struct {
	Key        Key
	Spec       *Spec // the content it is fired with
	Occurrence string
	Step       int
	Attempt    int
	Revision   int64
	Nominal    Instant
	Fired      Instant
	Local      string
	Expires    Instant
	Channel    string
	ReceiptBy  Instant // when the engine stops waiting for a receipt; 0: it waits for none
	Postponed  int     // how often it was postponed before
	FirstFired Instant // of a dead letter: when its occurrence first went out; 0: never
}

// ID is the ce_id. It is the same for every attempt.
func (f *Fire) ID() string { return DueID(f.Key, f.Occurrence, f.Step) }

// DeadLetter is an occurrence nobody could deliver, or emit.
type DeadLetter struct {
	Fire   Fire
	Code   string
	Detail string
}

// DueID spells a ce_id: <trigger key>@<occurrence>#<step>.
func DueID(k Key, occurrence string, step int) string {
	b := make([]byte, 0, len(k)+len(occurrence)+4)
	b = append(b, k...)
	b = append(b, '@')
	b = append(b, occurrence...)
	b = append(b, '#')
	return string(strconv.AppendInt(b, int64(step), 10))
}

// Due applies one timer of s that goes off at now. A timer that s no longer has is stale and
// does nothing. The wheel may still hold timers that were cancelled or moved.
//
// The calendars or the tz release may be newer than the plan. If they give another one, it is made anew first: what is
// decided by the one says nothing of what the others would fire.
func (m *Machine) Due(s *State, t Timer, now Instant) Outcome {
	changed := false
	if s.isPlanned(t) {
		if newer := m.newerThanPlan(s, now); newer != "" {
			out := m.Replan(s, now, newer)
			if len(out.Facts) > 0 || out.State.Series.At == 0 {
				return out
			}
			s, changed = out.State, out.Changed
		}
	}
	d := m.begin(s, now)
	d.out.Changed = changed
	switch t.Kind {
	case TimerSeries:
		if s.isPlanned(t) {
			d.seriesDue()
		}
	case TimerLive:
		switch i, step := s.liveAt(t); {
		case i < 0:
		case step:
			d.stepDue(i)
		default:
			d.liveDue(i)
		}
	}
	return d.finish()
}

// isPlanned reports whether a timer is that of the next occurrence of the plan.
func (s *State) isPlanned(t Timer) bool {
	return t.Kind == TimerSeries && s.Status == Pending && s.Series.At != 0 && s.Series.Occurrence == t.Occurrence &&
		s.Series.Due() == t.Due
}

// liveAt is the index of a timer's occurrence, -1 if the timer is stale. step reports whether
// it is the timer of the next step.
func (s *State) liveAt(t Timer) (i int, step bool) {
	for i := range s.Live {
		l := &s.Live[i]
		switch {
		case s.Status == Paused && l.Kind == LiveSnoozed:
		case l.NextStep == t.Due && l.NextStep != 0 && l.nextStepName() == t.Occurrence:
			return i, true
		case l.Kind != LiveEscalating && l.Due == t.Due && l.timerName() == t.Occurrence:
			return i, false
		}
	}
	return -1, false
}

// WaitsForReceipt reports whether a receipt may make t stale: t is a time-out, a retry or a
// step. So receipts are read before it goes off.
func (s *State) WaitsForReceipt(t Timer) bool {
	if t.Kind != TimerLive {
		return false
	}
	i, _ := s.liveAt(t)
	return i >= 0 && s.Live[i].open()
}

// seriesDue fires the planned occurrence, unless it is too late, and plans the next one.
func (d *decision) seriesDue() {
	s := d.s
	occ := d.seriesOccurrence()
	missed := d.now.Sub(occ.Due) > d.m.MisfireAfter
	switch {
	case missed && s.Recurring():
		var ok bool
		if occ, ok = d.catchUp(); !ok {
			d.deriveStatus()
			return
		}
	case missed && s.Series.At > s.Series.MissedUntil:
		d.misfired(1, s.Series.At, s.Series.At)
		if s.Spec.Misfire == SkipMissed {
			d.advance()
			d.expire(&occ, "misfire")
			return
		}
	}
	release := s.Series.TZData
	d.advance()
	if expired(&s.Spec, occ.Due, d.now) {
		d.expire(&occ, "expires_after")
		return
	}
	d.emit(&occ).TZData = release
	d.deriveStatus()
}

func (d *decision) seriesOccurrence() Live {
	p := &d.s.Series
	return Live{
		Occurrence: p.Occurrence, Nominal: p.At, Local: p.Local, Due: p.At + Instant(p.Jitter), Attempt: 1,
		Revision: d.s.Revision,
	}
}

// expire ends one occurrence that is later than expires_after. Other occurrences of the
// trigger go on.
func (d *decision) expire(l *Live, reason string) {
	s := d.s
	switch {
	case s.Recurring():
		d.addExpiredFact(l, reason)
		d.deriveStatus()
		return
	case s.Series.At == 0 && len(s.Live) == 0 && l.Accepted:
		d.end(Fired) // an earlier step was accepted
	case s.Series.At == 0 && len(s.Live) == 0:
		d.end(Expired)
	default:
		d.deriveStatus()
	}
	d.addExpiredFact(l, reason)
}

func (d *decision) addExpiredFact(l *Live, reason string) {
	f := Fact{
		Type: OccurrenceExpired, Reason: reason, Scheduled: l.Nominal, Local: l.Local,
		Occurrence: l.Occurrence, Detail: l.Note,
	}
	if l.Step > 0 || l.AttemptsBeforeRedrive > 0 {
		f.Step, f.Attempt, f.HasStep = l.Step, l.Attempt, true
	}
	d.ofContent(l, d.addFact(f))
}

func (d *decision) misfired(count int, first, last Instant) {
	d.addFact(Fact{Type: Misfired, Reason: d.s.Spec.Misfire.String(), Count: count, First: first, Last: last})
}

// expired reports whether an occurrence due at due is later than expires_after.
func expired(spec *Spec, due, now Instant) bool {
	return spec.Expires > 0 && now.Sub(due) > spec.Expires
}

// liveDue applies the timer of one live occurrence: a snooze or run_now fires, a retry is
// emitted, an occurrence in flight has timed out.
func (d *decision) liveDue(i int) {
	s := d.s
	l := s.Live[i]
	s.Live = slices.Delete(slices.Clone(s.Live), i, i+1)
	d.showStatus()
	if l.Kind == LiveInFlight {
		d.out.TimedOut = d.content(&l).ChannelOfStep(l.Step)
		d.retry(&l, 0, d.now, "receipt_timeout", "")
		d.deriveStatusUnlessEnded()
		return
	}
	if expired(d.content(&l), d.wanted(&l), d.now) {
		d.expire(&l, "expires_after")
		return
	}
	if l.Revision == 0 {
		l.Revision = s.Revision
	}
	d.emit(&l)
	d.deriveStatus()
}

// wanted is when an occurrence should first fire: nominal time plus jitter. Only planned
// occurrences have jitter. That of a redriven one is in its time of expiry already.
func (d *decision) wanted(l *Live) Instant {
	if offThePlan(l.Occurrence) || l.AttemptsBeforeRedrive > 0 {
		return l.Nominal
	}
	return l.Nominal + Instant(d.m.jitter(d.content(l), d.s.Key, l.Occurrence))
}

// content is the Spec that an occurrence fires with.
func (d *decision) content(l *Live) *Spec {
	if l.Was != nil {
		return l.Was
	}
	return &d.s.Spec
}

// emit adds one due event and its fact. On a channel with receipts the occurrence is then in
// flight, until a receipt comes or the time-out passes.
func (d *decision) emit(l *Live) *Fact {
	f := d.dueEvent(l)
	f.Fired = d.now
	spec, ch := f.Spec, d.m.Channel(f.Channel)
	if ch.Receipts {
		f.ReceiptBy = d.now.Add(ch.ReceiptTimeout)
	}
	d.out.Fires = append(d.out.Fires, f)
	wanted := l.Due
	if l.Kind != LiveRetry { // PutOff has moved Due if its topic did not take it
		wanted = d.wanted(l)
	}
	late := max(0, int64(d.now-wanted))
	topic, partition := d.m.dueTopic(&f)
	d.keepFiring(Firing{Occurrence: l.Occurrence, At: d.now, Nominal: l.Nominal, Topic: topic, Partition: partition})
	d.planNextStep(l)
	note := l.Note
	l.Note, l.EmitRetry = "", 0 // the note of a run is the detail of its first firing alone
	switch {
	case ch.Receipts:
		l.Kind, l.Due = LiveInFlight, d.now.Add(ch.ReceiptTimeout)
		d.addLive(*l)
	case l.NextStep != 0: // a channel without receipts counts as accepted
		l.Accepted = true
		d.waitForStep(l, l.NextStep)
	}
	d.statusOfFired(ch)
	return d.addFactOf(l, Fact{
		Type: OccurrenceFired, Scheduled: l.Nominal, Local: l.Local, Due: wanted, Lateness: late, HasLate: true,
		DueTopic: topic, DuePart: partition, HasDue: true, Tags: spec.Tags, Detail: note,
	})
}

// dueEvent is an occurrence's due event. The caller sets its times.
func (d *decision) dueEvent(l *Live) Fire {
	spec := *d.content(l)
	f := Fire{
		Key: d.s.Key, Spec: &spec, Occurrence: l.Occurrence, Step: l.Step, Attempt: l.Attempt,
		Revision: cmp.Or(l.Revision, d.s.Revision),
		Nominal:  l.Nominal, Local: l.Local, Channel: spec.ChannelOfStep(l.Step), Postponed: l.Postponed,
	}
	if spec.Expires > 0 {
		f.Expires = d.wanted(l).Add(spec.Expires)
	}
	return f
}

// statusOfFired sets the status for an occurrence.fired fact. On a channel without receipts a
// one-shot is FIRED at once.
func (d *decision) statusOfFired(ch Channel) {
	s := d.s
	switch {
	case s.Series.At != 0 || s.waiting() || s.Recurring():
	case ch.Receipts || len(s.Live) > 0:
		s.Status = InFlight
	default:
		d.end(Fired)
	}
}

func (d *decision) keepFiring(f Firing) {
	s := d.s
	if i := slices.IndexFunc(s.Done, func(done Firing) bool { return done.Occurrence == f.Occurrence }); i >= 0 {
		if s.Done[i].Topic != f.Topic || s.Done[i].Partition != f.Partition { // another step, on its own channel
			s.Done = slices.Clone(s.Done)
			s.Done[i].Topic, s.Done[i].Partition = f.Topic, f.Partition
		}
		return
	}
	s.Done = append(slices.Clone(s.Done), f)
	for len(s.Done) > keepFirings {
		d.keepFirstFired(&s.Done[0])
		s.Done = s.Done[1:]
	}
}

// keepFirstFired keeps the first emission time of an occurrence in flight before Done drops
// it, because events about it have that time.
func (d *decision) keepFirstFired(f *Firing) {
	i := slices.IndexFunc(d.s.Live, func(l Live) bool { return l.Occurrence == f.Occurrence })
	if i >= 0 && d.s.Live[i].FirstFired == 0 { // else f.At is that of a redrive
		d.s.Live = slices.Clone(d.s.Live)
		d.s.Live[i].FirstFired = f.At
	}
}
