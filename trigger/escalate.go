package trigger

import (
	"slices"
	"time"
)

// An escalation is a list of steps. Step 0 is what the trigger fires. Each step
// after it goes out on its own channel, under its own ce_id, unless somebody has
// reacted before: delivered or ack of any step stop it, accepted does not.
//
//	step k goes out ──▶ in flight ──▶ retries of k, as of any channel
//	      │                 └── failed: step k+1 at once; suppressed: at its time
//	      └── after its time (NextStep) ──▶ step k+1 goes out; k is not tried again
//
// After the last step the occurrence has FIRED if any step was accepted, else it
// has failed as any other.

// Step is one step of an escalation.
type Step struct {
	Channel string
	After   time.Duration // since the emission of the step before; 0 in the first
}

// CallbackChannel is the channel that callbacks go to.
const CallbackChannel = "webhook"

// ChannelOfStep is the channel of a step. A redriven occurrence has no further steps, and its
// content has the channel of its own step.
func (s *Spec) ChannelOfStep(step int) string {
	if step >= 0 && step < len(s.Escalation) {
		return s.Escalation[step].Channel
	}
	return s.Channel
}

// Channels are all channels of a trigger's due events, each once.
func (s *Spec) Channels() []string {
	all := []string{s.Channel}
	for i := range s.Escalation {
		if name := s.Escalation[i].Channel; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// GoesTo reports whether a channel is among Channels.
func (s *Spec) GoesTo(channel string) bool {
	return s.Channel == channel ||
		slices.ContainsFunc(s.Escalation, func(step Step) bool { return step.Channel == channel })
}

func (d *decision) channel(l *Live) Channel { return d.m.Channel(d.content(l).ChannelOfStep(l.Step)) }

// hasNext reports whether a step follows the current one.
func (d *decision) hasNext(l *Live) bool { return l.Step+1 < len(d.content(l).Escalation) }

// open reports whether an occurrence was emitted and a receipt may still decide it.
func (l *Live) open() bool {
	return l.Kind == LiveInFlight || l.Kind == LiveRetry || l.Kind == LiveEscalating
}

// planNextStep sets the time of the next step, counted from this emission. If an earlier
// emission of the same step has set it, it stays.
func (d *decision) planNextStep(l *Live) {
	if d.hasNext(l) && l.NextStep == 0 {
		l.NextStep = d.now.Add(d.content(l).Escalation[l.Step+1].After)
	}
}

// waitForStep keeps an occurrence until its next step. Nothing of it is in flight meanwhile.
func (d *decision) waitForStep(l *Live, at Instant) {
	l.Kind, l.NextStep, l.Due = LiveEscalating, at, at
	d.addLive(*l)
}

// stepDue emits the next step of an occurrence. It stops waiting for the step before, which
// is not tried again.
func (d *decision) stepDue(i int) {
	s := d.s
	l := s.Live[i]
	s.Live = slices.Delete(slices.Clone(s.Live), i, i+1)
	if expired(d.content(&l), d.wanted(&l), d.now) {
		d.expireStep(&l)
		return
	}
	l.Due, l.Kind = l.NextStep, LiveRetry // so that lateness counts from the step's due time
	l.nextStep()
	d.addFactOf(&l, Fact{Type: EscalationAdvanced, Scheduled: l.Nominal, Local: l.Local})
	d.emit(&l)
	d.deriveStatus()
}

// nextStep begins the next step. Attempts and postponements are counted per step.
func (l *Live) nextStep() {
	l.Step++
	l.Attempt, l.Postponed, l.FirstSent, l.AttemptsBeforeRedrive, l.NextStep = 1, 0, 0, 0, 0
}

// expireStep ends an escalation whose next step would be later than expires_after. The engine
// still waits for what is in flight.
func (d *decision) expireStep(l *Live) {
	if l.NextStep = 0; l.Kind != LiveEscalating {
		d.addLive(*l)
		d.out.Changed = true
		return
	}
	l.nextStep()
	d.expire(l, "expires_after")
}

// fail adds the failure's fact and emits the next step at once. After the last step the
// occurrence has failed with code, unless one of its steps was accepted.
func (d *decision) fail(l *Live, failure Fact, code, detail string) {
	switch {
	case d.hasNext(l):
		failed := *l
		d.waitForStep(l, d.now)
		d.deriveStatus() // before the fact, which shows the status: in flight even if this step never went out
		d.addFactOf(&failed, failure)
	case l.Accepted:
		if d.endsNow() && !d.s.Recurring() {
			d.end(Fired)
		}
		d.addFactOf(l, failure)
		d.deriveStatusUnlessEnded()
	default:
		d.addFactOf(l, failure)
		d.deadLetter(l, code, detail)
		d.endOrDeriveStatus()
	}
}

// accept applies the receipt accepted. It ends the wait for this step. Only for the last step
// it ends the escalation, too.
func (d *decision) accept(l *Live, r *Receipt) {
	l.Accepted = true
	switch {
	case r.Step < l.Step: // an earlier step
		d.addLive(*l)
		d.out.Changed = true
	case d.hasNext(l):
		d.planNextStep(l)
		d.waitForStep(l, l.NextStep)
	default:
		d.close(l, r)
		return
	}
	d.deriveStatus()
	d.addReceiptFact(l, r)
}

// suppress applies the receipt suppressed: the worker did not send this step, as the user
// wishes. The next step goes at its time.
func (d *decision) suppress(l *Live, r *Receipt) {
	if !d.hasNext(l) {
		d.close(l, r)
		return
	}
	d.planNextStep(l)
	d.waitForStep(l, l.NextStep)
	d.deriveStatus()
	d.addReceiptFact(l, r)
}

// deliver applies the receipt delivered: no further step goes.
func (d *decision) deliver(l *Live, r *Receipt) {
	d.close(l, r)
	if d.hasNext(l) || r.Step < l.Step {
		d.addFactOf(l, Fact{Type: EscalationStopped, Reason: r.Outcome.String()})
	}
}

// close ends an occurrence with a receipt.
func (d *decision) close(l *Live, r *Receipt) {
	if d.endsNow() && !d.s.Recurring() {
		d.end(Fired)
	}
	d.addReceiptFact(l, r)
	d.deriveStatusUnlessEnded()
}

// escalating are the occurrences with further steps to come.
func (d *decision) escalating() (all []Live) {
	if d.s == nil {
		return nil
	}
	for _, l := range d.s.Live {
		if l.open() && d.hasNext(&l) {
			all = append(all, l)
		}
	}
	return all
}

// addStoppedFacts adds a fact for each escalation that a cancel or an erase has stopped.
func (d *decision) addStoppedFacts(stopped []Live) {
	for i := range stopped {
		d.addFactOf(&stopped[i], Fact{Type: EscalationStopped, Reason: "cancelled"})
	}
}
