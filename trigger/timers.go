package trigger

import "strconv"

// Timer is one entry of the due index. A State's timers are a function of the
// State (Timers), so the store arms and disarms by comparing before and after.
type Timer struct {
	Due        Instant
	Priority   Priority
	Kind       TimerKind
	Occurrence string
}

// TimerKind says what a timer is for.
type TimerKind uint8

// The kinds of timers.
const (
	TimerSeries TimerKind = iota + 1
	TimerLive
)

// Timers lists what the due index must hold for s. It depends on s alone.
func (s *State) Timers(buf []Timer) []Timer {
	buf = buf[:0]
	if s.Status.Finished() {
		return buf
	}
	if s.Series.At != 0 && s.Status != Paused {
		buf = append(buf, Timer{s.Series.Due(), s.Spec.Priority, TimerSeries, s.Series.Occurrence})
	}
	for i := range s.Live {
		l := &s.Live[i]
		if s.Status == Paused && l.Kind == LiveSnoozed {
			continue
		}
		if l.Kind != LiveEscalating {
			buf = append(buf, Timer{l.Due, s.Spec.Priority, TimerLive, l.timerName()})
		}
		if l.NextStep != 0 {
			buf = append(buf, Timer{l.NextStep, s.Spec.Priority, TimerLive, l.nextStepName()})
		}
	}
	return buf
}

// timerName is the timer's name. It differs for the steps of one occurrence.
func (l *Live) timerName() string {
	if l.Step == 0 {
		return l.Occurrence
	}
	return l.Occurrence + "#" + strconv.Itoa(l.Step)
}

// nextStepName is the name of the next step's timer.
func (l *Live) nextStepName() string { return l.Occurrence + "#" + strconv.Itoa(l.Step+1) }

// Next is the earliest instant at which s will fire; 0 if it will not.
func (s *State) Next() Instant {
	var next Instant
	if s.Status.Finished() {
		return 0
	}
	if s.Series.At != 0 {
		next = s.Series.Due()
	}
	for i := range s.Live {
		l := &s.Live[i]
		if l.Kind != LiveInFlight && (next == 0 || l.Due < next) {
			next = l.Due
		}
		if l.NextStep != 0 && (next == 0 || l.NextStep < next) {
			next = l.NextStep
		}
	}
	return next
}

// NextPlanned is when the next occurrence is due by the plan: its nominal instant plus jitter,
// of the series or a snooze. It is 0 if there is none, or while the trigger is paused. Unlike
// Next it moves neither with failed attempts to emit nor with what follows an emission
// (retries, further steps), and a run_now is not planned.
func (s *State) NextPlanned() (next Instant) {
	if s.Status.Finished() || s.Status == Paused {
		return 0
	}
	if s.Series.At != 0 {
		next = s.Series.At + Instant(s.Series.Jitter)
	}
	for i := range s.Live {
		if l := &s.Live[i]; l.Kind == LiveSnoozed && (next == 0 || l.Nominal < next) {
			next = l.Nominal
		}
	}
	return next
}
