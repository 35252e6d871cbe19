package trigger

import "slices"

// The waits between attempts to emit an occurrence that its due topic refuses: 2 s, 4 s … 5
// min, about 20 minutes in all. For a topic that does not answer there is no end, and the
// longest wait is four minutes.
const (
	maxEmitRetries   = 10
	maxAnswerRetries = 7    // the most that no answer adds to EmitRetry; the rest is for refusals
	firstEmitRetry   = 2000 // ms
)

// MaxEmitRetry is the longest of these waits, in milliseconds.
const MaxEmitRetry = 300000

// PutOff puts a timer off because its due topic is silent, or refuses records for a reason. If a
// topic has refused for too long, the occurrence fails. Nothing of it was emitted.
func (m *Machine) PutOff(s *State, t Timer, now Instant, reason string, silent bool) Outcome {
	d := m.begin(s, now)
	if t.Kind == TimerSeries {
		d.putOffSeries(reason, silent)
	} else if i, step := s.liveAt(t); i >= 0 {
		d.putOffLive(i, step, reason, silent)
	}
	return d.finish()
}

func (d *decision) putOffSeries(reason string, silent bool) {
	s := d.s
	if tries := s.Series.Retry; silent || tries < maxEmitRetries {
		s.Series.RetryAt, s.Series.Retry = d.now+emitBackoff(tries), oneMoreTry(tries, silent)
		d.out.Changed = true
		return
	}
	l := d.seriesOccurrence()
	d.advance()
	d.giveUp(&l, reason)
}

func (d *decision) putOffLive(i int, step bool, reason string, silent bool) {
	s := d.s
	s.Live = slices.Clone(s.Live)
	l := &s.Live[i]
	if tries := l.EmitRetry; silent || tries < maxEmitRetries {
		at := d.now + emitBackoff(tries)
		l.EmitRetry = oneMoreTry(tries, silent)
		if step {
			l.NextStep = at
		}
		if !step || l.Kind == LiveEscalating {
			l.Due = at
		}
		d.out.Changed = true
		return
	}
	given := *l
	s.Live = slices.Delete(s.Live, i, i+1)
	if step {
		given.nextStep()
		given.Kind = LiveRetry // the step before may be in flight; this one was not emitted
	}
	given.EmitRetry = 0
	d.giveUp(&given, reason)
}

// giveUp fails an occurrence, or its step, that its due topic has refused for too long.
func (d *decision) giveUp(l *Live, reason string) {
	d.showStatus()
	if !d.hasNext(l) && !l.Accepted { // the only fact is that it was never emitted
		d.deadLetter(l, reasonDueTopic, reason)
		d.endOrDeriveStatus()
		return
	}
	d.fail(l, Fact{Type: DeliveryFailed, Reason: reasonDueTopic, Detail: reason}, reasonDueTopic, reason)
}

// reasonDueTopic is the reason in facts about occurrences that their due topic refuses.
const reasonDueTopic = "due_topic"

func oneMoreTry(tries int, silent bool) int {
	if silent && tries >= maxAnswerRetries {
		return tries
	}
	return tries + 1
}

func emitBackoff(tries int) Instant { return min(Instant(firstEmitRetry)<<tries, MaxEmitRetry) }
