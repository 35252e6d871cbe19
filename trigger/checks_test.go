package trigger

import (
	"errors"
	"fmt"
	"reflect"
)

// checks holds what docs/SEMANTICS.md promises of every step, whatever the inputs, and
// the memory of what went out that it needs.
type checks struct {
	sent map[sentID]Instant
	seq  map[Key]int64
	rev  map[Key]int64

	ladders map[Key]map[string]*ladder // by occurrence
}

// ladder is how far an escalation has come.
type ladder struct {
	step    int
	stopped bool
}

// sentID is what there must be exactly one due event of (docs/formats/due.md).
type sentID struct {
	key                Key
	id                 string
	attempt, postponed int
}

// stepInput is what was fed: one of the three.
type stepInput struct {
	key     Key
	now     Instant
	command *Command
	receipt *Receipt
	timer   *Timer
}

func (in stepInput) String() string {
	switch {
	case in.command != nil:
		return fmt.Sprintf("%v %s %s %+v", in.now, in.command.Op, in.key, *in.command)
	case in.receipt != nil:
		return fmt.Sprintf("%v receipt %s %+v", in.now, in.key, *in.receipt)
	case in.timer == nil:
		return fmt.Sprintf("%v replan %s", in.now, in.key)
	}
	return fmt.Sprintf("%v timer %s %+v", in.now, in.key, *in.timer)
}

func newChecks() checks {
	return checks{map[sentID]Instant{}, map[Key]int64{}, map[Key]int64{}, map[Key]map[string]*ladder{}}
}

// forget drops what was known of a key whose horizon has passed: seq, revision
// and occurrences begin anew.
func (c *checks) forget(k Key) {
	for id := range c.sent {
		if id.key == k {
			delete(c.sent, id)
		}
	}
	delete(c.seq, k)
	delete(c.rev, k)
	delete(c.ladders, k)
}

// step checks one step; s is the state before it.
func (c *checks) step(m *Machine, in stepInput, s *State, out Outcome) error {
	return errors.Join(
		c.numbers(in.key, s, out),
		c.fires(m, in, s, out),
		c.dead(in, out),
		c.steps(in, out),
		unchanged(s, out),
		c.bounds(out.State),
		timersOf(out.State),
		statusOf(out.State),
		factsOf(out),
	)
}

// numbers: seq is gap-free and counts facts; revision never falls and rises by
// at most one a step.
func (c *checks) numbers(k Key, s *State, out Outcome) error {
	if out.State == nil {
		return nil // a key we do not know and did not come to know
	}
	seq, rev := c.seq[k], c.rev[k]
	for _, f := range out.Facts {
		if seq++; f.Seq != seq {
			return fmt.Errorf("fact %s has seq %d, want %d", f.Type, f.Seq, seq)
		}
		if f.Revision < rev || f.Revision > out.State.Revision {
			return fmt.Errorf("fact %s has revision %d, outside %d..%d", f.Type, f.Revision, rev, out.State.Revision)
		}
	}
	if out.State.Seq != seq {
		return fmt.Errorf("state has seq %d after fact %d", out.State.Seq, seq)
	}
	if d := out.State.Revision - rev; d < 0 || d > 1 {
		return fmt.Errorf("revision went from %d to %d", rev, out.State.Revision)
	}
	c.seq[k], c.rev[k] = seq, out.State.Revision
	return nil
}

// fires: no ce_id, attempt and postponement twice, never before its time.
func (c *checks) fires(m *Machine, in stepInput, s *State, out Outcome) error {
	for i := range out.Fires {
		f := &out.Fires[i]
		id := sentID{in.key, f.ID(), f.Attempt, f.Postponed}
		if at, ok := c.sent[id]; ok {
			return fmt.Errorf("%s attempt %d.%d fires again; it fired at %v", f.ID(), f.Attempt, f.Postponed, at)
		}
		if by := m.Channel(f.Channel); by.Receipts != (f.ReceiptBy != 0) {
			return fmt.Errorf("%s on channel %s waits for a receipt by %v", f.ID(), f.Channel, f.ReceiptBy)
		}
		c.sent[id] = in.now
		if f.Fired != in.now || f.Nominal > in.now {
			return fmt.Errorf("%s fired at %v, nominal %v, now %v", f.ID(), f.Fired, f.Nominal, in.now)
		}
		if in.timer != nil && in.timer.Due > in.now {
			return fmt.Errorf("%s fired %v before its timer at %v", f.ID(), in.now, in.timer.Due)
		}
		if f.Spec == nil {
			return fmt.Errorf("%s fired without content", f.ID())
		}
		if x := f.Spec.Expires; x > 0 && in.now > f.Nominal.Add(x+f.Spec.Jitter+m.Channel(f.Channel).JitterLow) &&
			in.command == nil {
			return fmt.Errorf("%s fired at %v although it expired %v after %v", f.ID(), in.now, x, f.Nominal)
		}
	}
	return nil
}

// dead: a dead letter says when its attempt went out, as the due event did;
// nothing, if that never went or is not known.
func (c *checks) dead(in stepInput, out Outcome) error {
	for _, d := range out.Dead {
		sent, ok := c.sent[sentID{in.key, d.Fire.ID(), d.Fire.Attempt, d.Fire.Postponed}]
		known := ok && d.Code != "overrun" && d.Code != "due_topic"
		if f := d.Fire.Fired; f != 0 && (!ok || f != sent) || f == 0 && known {
			return fmt.Errorf("%s attempt %d died as if fired at %v; it fired at %v", d.Fire.ID(), d.Fire.Attempt, f,
				sent)
		}
		if x := d.Fire.Spec.Expires; (x > 0) != (d.Fire.Expires != 0) {
			return fmt.Errorf("%s expires %v after, and died with %v", d.Fire.ID(), x, d.Fire.Expires)
		}
	}
	return nil
}

// steps: one step after the other, and none after the escalation was stopped.
func (c *checks) steps(in stepInput, out Outcome) error {
	all := c.ladders[in.key]
	if all == nil {
		all = map[string]*ladder{}
		c.ladders[in.key] = all
	}
	for _, f := range out.Facts {
		l := all[f.Occurrence]
		if l == nil {
			l = &ladder{}
			all[f.Occurrence] = l
		}
		switch f.Type {
		case Redriven:
			l.step, l.stopped = f.Step, false
		case EscalationStopped:
			l.stopped = true
		case EscalationAdvanced:
			if l.stopped || f.Step != l.step+1 && f.Step != l.step+2 { // a step whose topic refuses it never goes
				return fmt.Errorf("%s of %s to step %d, from %+v", f.Type, f.Occurrence, f.Step, *l)
			}
			l.step = f.Step
		case OccurrenceFired:
			if l.stopped || f.Step != l.step {
				return fmt.Errorf("%s of %s, step %d, in %+v", f.Type, f.Occurrence, f.Step, *l)
			}
		case DeadLettered:
			l.step = f.Step
		}
	}
	return nil
}

// unchanged: a refusal leaves the trigger as it was, but for the facts told;
// and a step that says nothing changed changed nothing.
func unchanged(s *State, out Outcome) error {
	if !out.Changed && !reflect.DeepEqual(s, out.State) {
		return errors.New("the state changed and Changed is false")
	}
	if out.Rejected == nil || s == nil {
		return nil
	}
	was := *s
	was.Seq = out.State.Seq
	if !reflect.DeepEqual(&was, out.State) {
		return fmt.Errorf("refused (%v), and yet the state changed", out.Rejected)
	}
	return nil
}

func (c *checks) bounds(s *State) error {
	switch {
	case s == nil:
		return nil
	case len(s.Live) > MaxLive:
		return fmt.Errorf("%d live occurrences", len(s.Live))
	case len(s.Keys) > keepKeys:
		return fmt.Errorf("%d idempotency keys", len(s.Keys))
	case len(s.Done) > keepFirings:
		return fmt.Errorf("%d firings", len(s.Done))
	case len(s.Redriven) > keepRedrives:
		return fmt.Errorf("%d redrives", len(s.Redriven))
	}
	return nil
}

// timersOf: finished states have none; no two have one name; Next is the first
// of those that will fire something.
func timersOf(s *State) error {
	if s == nil {
		return nil
	}
	timers := s.Timers(nil)
	if s.Status.Finished() && (len(timers) > 0 || s.Next() != 0) {
		return fmt.Errorf("%s with timers %v, next %v", s.Status, timers, s.Next())
	}
	if !s.Status.Finished() && s.Status != Paused && len(timers) == 0 {
		return fmt.Errorf("%s without a timer", s.Status)
	}
	type name struct {
		kind       TimerKind
		occurrence string
	}
	seen := map[name]bool{}
	for _, t := range timers {
		n := name{t.Kind, t.Occurrence}
		if seen[n] {
			return fmt.Errorf("two timers %v", n)
		}
		if seen[n] = true; t.Due <= 0 || t.Occurrence == "" {
			return fmt.Errorf("timer %+v", t)
		}
	}
	return nil
}

// statusOf: what doc.go says of the fields set in each status.
func statusOf(s *State) error {
	if s == nil {
		return nil
	}
	flying := 0
	for i := range s.Live {
		l := &s.Live[i]
		if l.open() {
			flying++
		}
		if l.Kind == LiveEscalating && (l.NextStep == 0 || l.NextStep != l.Due) {
			return fmt.Errorf("nothing of %s is in flight, and its next step goes at %v, due %v", l.Occurrence,
				l.NextStep, l.Due)
		}
		for j := range i {
			if s.Live[j].Occurrence == l.Occurrence && s.Live[j].Step == l.Step {
				return fmt.Errorf("%s #%d lives twice", l.Occurrence, l.Step)
			}
		}
	}
	switch {
	case s.Status == 0 || s.Status.String() == "":
		return fmt.Errorf("status %d", s.Status)
	case s.Status.Finished() != (s.ForgetAt != 0):
		return fmt.Errorf("%s and ForgetAt %v", s.Status, s.ForgetAt)
	case s.Status.Finished() && (s.Series.At != 0 || len(s.Live) > 0):
		return fmt.Errorf("%s with something planned: %+v %+v", s.Status, s.Series, s.Live)
	case s.Status == InFlight && flying == 0:
		return errors.New("IN_FLIGHT with nothing in flight")
	case s.Status == InFlight && s.Recurring():
		return errors.New("a series is IN_FLIGHT")
	case s.Status == InFlight && s.Series.At != 0:
		return errors.New("IN_FLIGHT with something planned")
	case s.Note != "" && s.Status != Paused:
		return fmt.Errorf("%s with the note of a pause", s.Status)
	case s.Trimmed != trimmed(s):
		return fmt.Errorf("%s, user %q, trimmed %v", s.Status, s.Spec.UserID, s.Trimmed)
	case s.Trimmed && (s.Spec.Payload != nil || s.Spec.Headers != nil || s.Spec.Callback != nil):
		return fmt.Errorf("%s with content although it was trimmed", s.Status)
	case (s.Status == Unknown) != (s.Revision == 0):
		return fmt.Errorf("%s at revision %d", s.Status, s.Revision)
	case s.Status != Unknown && s.Status != Erased && s.Revision < 1:
		return fmt.Errorf("%s at revision %d", s.Status, s.Revision)
	}
	return nil
}

// trimmed says which statuses keep no content.
func trimmed(s *State) bool {
	switch s.Status {
	case Fired, Expired:
		return s.Spec.UserID == ""
	case Failed, Cancelled, Erased:
		return true
	}
	return false
}

// factsOf: every change is told; every fire has its fact.
func factsOf(out Outcome) error {
	fired := 0
	for _, f := range out.Facts {
		if f.Type == OccurrenceFired || f.Type == DeliveryRetried || f.Type == DeliveryPostponed || f.Type == Redriven {
			fired++
		}
		if f.Type == OccurrenceFired && !f.HasStep {
			return fmt.Errorf("%s without step and attempt", f.Type)
		}
		if f.Type == Rejected && f.Reason == "" {
			return errors.New("command.rejected without a code")
		}
	}
	if out.Rejected != nil && (len(out.Facts) != 1 || out.Facts[0].Type != Rejected || len(out.Fires) > 0) {
		return fmt.Errorf("refused with facts %+v", out.Facts)
	}
	return nil
}
