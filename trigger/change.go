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
		next.Redriven = old.Redriven // ids only, so that a later life does not send the same attempt once more
		if old.Status != Unknown {   // an unknown key was never created
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
		stopped[i].Was = &Spec{} // so that no fact has its content
	}
	d.addStoppedFacts(stopped)
	return nil
}

// ack ends the occurrences in flight, because the user has reacted. If none is in flight, it
// has no effect.
func (d *decision) ack(c *Command) *Error {
	if d.s == nil {
		return nil
	}
	acked := d.dropInFlight(c.Occurrence)
	if len(acked) == 0 {
		return nil
	}
	d.showStatus()
	if d.endsNow() && !d.s.Recurring() {
		d.end(Fired)
	}
	d.addAckedFacts(acked)
	d.deriveStatusUnlessEnded()
	return nil
}

// addAckedFacts adds a fact for each occurrence that the ack ended.
func (d *decision) addAckedFacts(acked []Live) {
	for i := range acked {
		d.addFactOf(&acked[i], Fact{Type: EscalationStopped, Reason: "ack"})
	}
}

// dropInFlight ends the occurrences in flight: the named one, or all. The life belongs to the
// name, so that a late ack of an earlier life ends nothing of this one.
func (d *decision) dropInFlight(occurrence string) (dropped []Live) {
	live := make([]Live, 0, len(d.s.Live))
	for _, l := range d.s.Live {
		if l.open() && (occurrence == "" || l.Occurrence == occurrence) {
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

// change applies the ops that need a trigger that has not ended.
func (d *decision) change(c *Command) *Error {
	s := d.s
	if s == nil || s.Status.Finished() {
		return &Error{Code: CodeNotFound, Msg: "there is no pending trigger with this key"}
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

// reschedule changes the time only. The content hash stays, so a producer's late retry of the
// register is still a duplicate and does not undo the reschedule.
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
	if !s.Recurring() { // a one-shot's occurrence is moved, even if it was snoozed
		if due := d.dropSnoozes(); s.Series.At == 0 {
			s.Series.At = due // for the event: the instant planned so far
		}
	}
	d.replan(spec, series, "")
	return nil
}

// replan replaces the plan and adds the fact.
func (d *decision) replan(spec Spec, series Series, reason string) {
	s := d.s
	before := s.Series
	s.Spec, s.Series = spec, series
	s.Revision++
	s.UpdatedAt = d.now
	f := d.addPlanFact(Rescheduled)
	f.Rule, f.PreviousScheduled, f.PreviousTZData, f.Reason = &s.Spec, before.At, before.TZData, reason
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
	d.addPlanFact(PausedFact)
	return nil
}

// pausable reports whether a pause would hold anything back: a series, or a one-shot's
// planned or snoozed occurrence. A run_now is never held back.
func (s *State) pausable() bool {
	return s.Recurring() || s.Series.At != 0 || slices.ContainsFunc(s.Live,
		func(l Live) bool { return l.Kind == LiveSnoozed })
}

// resume ends a pause. The misfire policy decides about the occurrences missed meanwhile when
// the timer goes off, as after an outage.
func (d *decision) resume(c *Command) *Error {
	s := d.s
	if s.Status != Paused {
		return d.duplicate("not paused")
	}
	if err := d.unstrand(); err != nil {
		return err
	}
	s.Revision++
	d.goOn("")
	return nil
}

// goOn ends a pause.
func (d *decision) goOn(reason string) {
	s := d.s
	s.Status, s.Note = Pending, ""
	s.UpdatedAt = d.now
	d.addPlanFact(Resumed).Reason = reason
	d.deriveStatus()
}

// The prefixes of ids of occurrences that no plan has. The partition and offset of the
// command follow.
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

// runNow adds an occurrence that fires at once. It does not change the series, so the
// revision stays.
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

// addLive adds a live occurrence. If there are too many, the oldest fails.
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

// oldest is the index of the live occurrence that was due first. Live itself is in the order
// of the last attempts.
func (s *State) oldest() (i int) {
	for j := range s.Live {
		if s.Live[j].Nominal < s.Live[i].Nominal {
			i = j
		}
	}
	return i
}
