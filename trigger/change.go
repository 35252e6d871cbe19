package trigger

import (
	"slices"
	"strings"
)

// erase forgets the content and leaves a record without it for the horizon.
func (d *decision) erase(c *Command) *Error {
	old := d.s
	next := &State{
		Key: c.Key, Status: Erased, ForgetAt: d.now.Add(d.m.Horizon), UpdatedAt: c.From.Append,
		Trimmed: true,
	}
	if old != nil {
		next.Revision, next.Seq, next.Life, next.LastAppend = old.Revision, old.Seq, old.Life, old.LastAppend
		next.Redriven = old.Redriven // by name alone: a later life must not send the same attempt once more
		if old.Status != Unknown {   // of what was never created there is no such time
			next.CreatedAt = old.CreatedAt
		}
	}
	if !old.endedAfter(c) {
		// as endWithCancel: a register appended before it stays erased
		next.Life.Partition, next.Life.Offset = c.From.Partition, c.From.Offset
	}
	next.Revision++
	var planned Live
	var others []Live
	if old != nil {
		planned, others = old.planned()
	}
	stopped := d.escalating()
	d.s = next
	d.addFact(Fact{Type: ErasedFact, Scheduled: planned.Nominal, Occurrence: planned.Occurrence})
	d.addDroppedFacts(others, "erased")
	for i := range stopped {
		stopped[i].Was = &Spec{} // nothing of its content is told
	}
	d.addStoppedFacts(stopped)
	return nil
}

// ack says that the user reacted: nothing further happens to what is in
// flight. Without anything in flight it has no effect.
func (d *decision) ack(c *Command) *Error {
	if d.s == nil {
		return nil
	}
	acked := d.dropInFlight(c.Occurrence)
	if len(acked) == 0 {
		return nil
	}
	d.showWaiting()
	if d.endsNow() && !d.s.Recurring() {
		d.end(Fired)
	}
	d.addAckedFacts(acked)
	d.deriveStatusUnlessEnded()
	return nil
}

// addAckedFacts tells of each occurrence that the user has reacted to it.
func (d *decision) addAckedFacts(acked []Live) {
	for i := range acked {
		d.addFactOf(&acked[i], Fact{Type: EscalationStopped, Reason: "ack"})
	}
}

// dropInFlight ends the occurrences in flight: the named one, or all.
func (d *decision) dropInFlight(occurrence string) (dropped []Live) {
	live := make([]Live, 0, len(d.s.Live))
	for _, l := range d.s.Live {
		if l.open() && (occurrence == "" || bare(l.Occurrence) == bare(occurrence)) {
			dropped = append(dropped, l)
			continue
		}
		live = append(live, l)
	}
	if len(dropped) > 0 {
		d.s.Live = live
	}
	return dropped
}

// change is every op that needs a living trigger.
func (d *decision) change(c *Command) *Error {
	s := d.s
	if s == nil || s.Status.Finished() {
		return &Error{Code: CodeNotFound, Msg: "no trigger of this key is pending"}
	}
	switch c.Op {
	case OpReschedule:
		return d.reschedule(c)
	case OpPause:
		return d.pause(c)
	case OpResume:
		return d.resume(c)
	case OpRunNow:
		return d.runNow(c)
	case OpSkip:
		return d.skip(c)
	case OpRezone:
		return d.rezone(c)
	}
	return &Error{Code: CodeUnknownOp, Field: "op", Msg: "unknown op " + c.Op.String()}
}

// reschedule changes only when. The content a register is compared by stays,
// so a producer's late retry does not undo it.
func (d *decision) reschedule(c *Command) *Error {
	s := d.s
	if s.Status == InFlight {
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	}
	if err := d.zoneExists(c.Zone); err != nil {
		return err
	}
	spec := s.Spec
	spec.When = c.Spec.When
	series, err := d.m.plan(&spec, s.Life, s.Key, c.From.Append, d.past(&spec.When))
	if err != nil {
		return err
	}
	if spec.When.Kind != WhenRecurrence && s.mayHaveFired(&series) {
		return &Error{Code: CodeAlreadyFired, Msg: "this occurrence has already fired: " + series.Occurrence}
	}
	if !s.Recurring() { // what waits of a one-shot is moved, be it a snooze
		if due := d.dropSnoozes(); s.Series.At == 0 {
			s.Series.At = due // what it was planned for, as the event tells
		}
	}
	d.replan(spec, series, "")
	return nil
}

// replan puts a new plan in place of the old one and tells it.
func (d *decision) replan(spec Spec, series Series, reason string) {
	s := d.s
	before := s.Series
	s.Spec, s.Series = spec, series
	s.Revision++
	s.UpdatedAt = d.now
	f := d.addPlanFact(Rescheduled)
	f.PreviousScheduled, f.PreviousTZData, f.Reason = before.At, before.TZData, reason
}

func (d *decision) pause(c *Command) *Error {
	s := d.s
	switch {
	case s.Status == Paused:
		return d.duplicate("already paused")
	case !s.pausable():
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	}
	s.Status, s.Note = Paused, c.Note
	s.Revision++
	s.UpdatedAt = d.now
	d.addPlanFact(PausedFact).Detail = c.Note
	return nil
}

// pausable says whether a pause would hold anything back: a series, or what is
// planned or snoozed of a one-shot. A run_now is never held back.
func (s *State) pausable() bool {
	return s.Recurring() || s.Series.At != 0 || slices.ContainsFunc(s.Live,
		func(l Live) bool { return l.Kind == LiveSnoozed })
}

// resume lets the series go on; what was missed meanwhile meets the misfire
// policy when its timer goes, as after an outage.
func (d *decision) resume(c *Command) *Error {
	s := d.s
	if s.Status != Paused {
		return d.duplicate("not paused")
	}
	if err := d.unstrand(); err != nil {
		return err
	}
	s.Revision++
	d.goOn("", c.Note)
	return nil
}

// goOn ends a pause.
func (d *decision) goOn(reason, note string) {
	s := d.s
	s.Status, s.Note = Pending, ""
	s.UpdatedAt = d.now
	f := d.addPlanFact(Resumed)
	f.Reason, f.Detail = reason, note
	d.deriveStatus()
}

// What an occurrence off the plan is named by: these, and the place of the
// command that asked for it.
const (
	snoozePrefix = "snz-"
	runPrefix    = "run-"
)

func offThePlan(occurrence string) bool {
	return strings.HasPrefix(occurrence, snoozePrefix) || strings.HasPrefix(occurrence, runPrefix)
}

func offPlan(prefix string, c *Command, l Life) string {
	return prefix + position(c.From.Partition, c.From.Offset) + l.suffix()
}

// runNow adds an occurrence that fires at once; the series is untouched, so
// the revision stays.
func (d *decision) runNow(c *Command) *Error {
	d.addLive(Live{
		Kind:       LiveRunNow,
		Occurrence: offPlan(runPrefix, c, d.s.Life),
		Nominal:    c.From.Append,
		Due:        c.From.Append,
		Attempt:    1,
	})
	d.out.Changed = true
	return nil
}

// addLive adds a live occurrence; one over the bound fails the oldest.
func (d *decision) addLive(l Live) {
	s := d.s
	s.Live = slices.Clone(s.Live)
	if len(s.Live) >= MaxLive {
		i := s.oldest()
		oldest := s.Live[i]
		s.Live = slices.Delete(s.Live, i, i+1)
		if oldest.Accepted {
			d.addFactOf(&oldest, Fact{Type: EscalationStopped, Reason: "overrun"})
		} else {
			d.deadLetter(&oldest, "overrun", "more than 128 live occurrences")
		}
	}
	s.Live = append(s.Live, l)
}

// oldest is the live occurrence that was due first. Live is in the order of
// the last attempts.
func (s *State) oldest() (i int) {
	for j := range s.Live {
		if s.Live[j].Nominal < s.Live[i].Nominal {
			i = j
		}
	}
	return i
}
