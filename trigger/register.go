package trigger

import "slices"

// register creates a trigger or replaces the whole of it. The order of the checks is
// documented (docs/SEMANTICS.md).
func (d *decision) register(c *Command) *Error {
	if err, known := d.knownKey(c); known {
		return err
	}
	s := d.s
	alive := s != nil && !s.reborn()
	if alive && c.IdempotencyKey == "" && s.Hash == c.Hash && !c.movesBack(s) {
		return d.duplicate("same content")
	}
	if c.IfAbsent && alive {
		return &Error{Code: CodeConflict, Field: "if_absent", Msg: "the trigger exists and is " + s.Status.String()}
	}
	if c.IfRevision != 0 && (s == nil || s.Revision != c.IfRevision) {
		return revisionConflict(revisionOf(s))
	}
	if c.Patch && !alive { // it ended after the patch had been made, which is for what was there
		return d.tooLateToChange()
	}
	if err := d.zoneExists(c.Zone); err != nil {
		return err
	}
	if err := d.allowed(c.Key, c.Spec); err != nil {
		return err
	}
	if alive {
		return d.replace(c)
	}
	return d.beginLife(c)
}

func (d *decision) tooLateToChange() *Error {
	if d.s == nil || d.s.cancelled() {
		return &Error{Code: CodeNotFound, Msg: "there is no trigger with this key"}
	}
	return &Error{Code: CodeAlreadyFired, Msg: "it is too late to change: the trigger is " + d.s.Status.String()}
}

// movesBack reports whether a patch restores the time of the register after a reschedule. The
// content hash is the register's, but the time is not the present one.
func (c *Command) movesBack(s *State) bool {
	return c.Patch && !s.Spec.When.same(&c.Spec.When)
}

// reborn reports whether a register begins a new life, rather than replacing s.
func (s *State) reborn() bool {
	switch s.Status {
	case Cancelled, Failed, Unknown, Erased:
		return true
	}
	return false
}

func revisionOf(s *State) int64 {
	if s == nil {
		return 0
	}
	return s.Revision
}

// knownKey answers a register with an idempotency key that the trigger knows.
func (d *decision) knownKey(c *Command) (*Error, bool) {
	if c.IdempotencyKey == "" || d.s == nil {
		return nil, false
	}
	for _, k := range d.s.Keys {
		if k.Key != c.IdempotencyKey {
			continue
		}
		if k.Hash == c.Hash {
			return d.duplicate("idempotency_key"), true
		}
		return &Error{
			Code: CodeIdempotencyConflict, Field: "idempotency_key",
			Msg: "this idempotency key was used with another content",
		}, true
	}
	return nil, false
}

// beginLife registers a key that is unknown, or whose last life has ended with a cancel, a
// failure or an erase.
func (d *decision) beginLife(c *Command) *Error {
	next := &State{
		Key:       c.Key,
		Status:    Pending,
		Spec:      *c.Spec,
		Hash:      c.Hash,
		Life:      Life{Partition: c.From.Partition, Offset: c.From.Offset},
		CreatedAt: c.From.Append,
	}
	if old := d.s; old != nil {
		next.Revision, next.Seq, next.Keys, next.LastAppend = old.Revision, old.Seq, old.Keys, old.LastAppend
		next.Redriven = old.Redriven // an earlier life's occurrences have other ids
		next.Erasure = old.erasure()
		next.Life.Later = old.Status != Unknown
	}
	series, err := d.m.plan(&next.Spec, next.Life, c.Key, c.From.Append, past{})
	if err != nil {
		return err
	}
	d.s = next
	d.applySpec(c, series)
	f := d.addPlanFact(Registered)
	f.Spec, f.Rule = &d.s.Spec, &d.s.Spec
	return nil
}

// replace replaces the content of a living, fired or completed trigger. What has fired in
// this life never fires again.
func (d *decision) replace(c *Command) *Error {
	s := d.s
	if c.Patch && (s.Status == InFlight || s.Status.Finished()) { // it fired after the patch had been made
		return d.tooLateToChange()
	}
	kept := d.past(&c.Spec.When, c.From.Append)
	if kept.goesOn = c.Patch && s.Recurring() && s.Spec.When.same(&c.Spec.When); kept.goesOn {
		kept.beyond = s.Series.At - 1 // another rule may still plan before At
		kept.spread = c.Spec.Jitter == s.Spec.Jitter
	}
	series, err := d.m.plan(c.Spec, s.Life, c.Key, c.From.Append, kept)
	if kept.goesOn && s.Series.At == 0 && !s.Series.stranded() { // what is snoozed or in flight goes on
		series, err = s.Series, nil
	}
	if err != nil {
		return err
	}
	if c.Spec.When.Kind != WhenRecurrence && s.mayHaveFired(&series) {
		return &Error{Code: CodeAlreadyFired, Msg: "this occurrence has already fired: " + series.Occurrence}
	}
	before := s.Series
	if c.Patch && series.At == before.At {
		series.MissedUntil = before.MissedUntil
	}
	dropped := d.detach(s.Recurring() && c.Spec.When.Kind == WhenRecurrence)
	if c.Patch && slices.ContainsFunc(dropped, func(l Live) bool { return l.Nominal == series.At }) {
		series.MissedUntil = series.At // it stays what was snoozed, which never misfires
	}
	if !c.Patch || s.Status != Paused {
		s.Status, s.Note = Pending, ""
	}
	s.Spec, s.Hash, s.ForgetAt, s.Trimmed = *c.Spec, c.Hash, 0, false
	d.applySpec(c, series)
	f := d.addPlanFact(Replaced)
	f.Spec, f.Rule, f.PreviousScheduled, f.PreviousTZData = &s.Spec, &s.Spec, before.At, before.TZData
	d.addDroppedFacts(dropped, "replaced")
	return nil
}

// applySpec completes an accepted register.
func (d *decision) applySpec(c *Command, series Series) {
	s := d.s
	s.Series = series
	s.Revision++
	s.UpdatedAt = c.From.Append
	if c.IdempotencyKey != "" {
		s.Keys = append(slices.Clone(s.Keys), IdempotencyKey{c.IdempotencyKey, c.Hash})
		if len(s.Keys) > keepKeys {
			s.Keys = s.Keys[len(s.Keys)-keepKeys:]
		}
	}
}

// detach lets occurrences in flight keep the content that they were fired with. Snoozed
// occurrences stay only if a rule is edited, and then fire with the new content. Otherwise
// they are dropped.
func (d *decision) detach(keepWaiting bool) (dropped []Live) {
	s := d.s
	old := s.Spec
	live := make([]Live, 0, len(s.Live))
	for _, l := range s.Live {
		if l.Kind == LiveSnoozed && !keepWaiting {
			dropped = append(dropped, l)
			continue
		}
		if l.open() && l.Was == nil {
			l.Was = &old
		}
		live = append(live, l)
	}
	s.Live = live
	return dropped
}

func (s *State) hasFired(occurrence string) bool {
	return fired(s.Done, occurrence) || slices.ContainsFunc(s.Redriven, func(r Redrive) bool {
		return r.Occurrence == occurrence // what was redriven has fired before, perhaps in a life that is forgotten
	})
}

// mayHaveFired reports whether a one-shot's plan has fired in this life. If that is no longer
// known, it counts as fired.
func (s *State) mayHaveFired(p *Series) bool {
	return s.hasFired(p.Occurrence) || forgotten(s.Done, p.At)
}
