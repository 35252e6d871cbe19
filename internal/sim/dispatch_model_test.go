package sim_test

import (
	"slices"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// This is the reference model of which user gets which message, when, and by which channel. It
// uses neither package trigger nor package preferences. It is written from docs/SEMANTICS.md
// (Escalation) and docs/api/preferences.md.

// step is one step of an escalation.
type step struct {
	channel string
	after   time.Duration // 0 in the first step
}

// story is what happens to one trigger. A zero time means never.
type story struct {
	key, user, kind string // kind is tags.type
	high            bool
	due             time.Time
	steps           []step
	answers         [][2]worker.Outcome // per step: the provider's answers to its attempts
	reports         []time.Duration     // per step: time from acceptance to the delivery report
	ack, cancel     time.Time
	change          string    // replace, snooze or erase, at changed; "" means none
	changed         time.Time // cancel is not before it
	newDue          time.Time // due time of what a replace or a snooze adds or moves
}

// wish is a user's preferences from a moment on.
type wish struct {
	from      time.Time
	optedOut  []string
	unwanted  map[string][]string // by type: the unwanted channels; none means all
	quiet     *quietHours
	addresses []string      // channels
	ahead     time.Duration // how far the deciding clock is ahead
}

// quietHours are local times in a zone, in minutes after midnight.
type quietHours struct {
	zone     *time.Location
	from, to int
	days     []time.Weekday // days on which they begin; none means all
	channels []string       // none means all
}

// model returns the messages of a story. Before anything has gone out, a replacement or a snooze
// moves it. Afterwards, a replacement leaves alone what is on its way, and a snooze counts as an ack
// of it; both add an occurrence. What has failed cannot be snoozed.
func model(s story, wishes []wish) (sent []message) {
	second, failed := s, time.Time{}
	second.due = s.newDue
	switch {
	case s.change == "erase":
		s.cancel = s.changed
	case s.change == "snooze" && (s.ack.Before(s.due) || s.ack.After(s.changed)):
		s.ack = s.changed
	}
	if s.change == "" || s.change == "erase" || !s.changed.Before(s.due) {
		sent, failed = play(s, wishes)
	}
	gone := s.change == "snooze" && !failed.IsZero() && failed.Before(s.changed)
	if s.change == "replace" || s.change == "snooze" && !gone {
		more, _ := play(second, wishes)
		sent = append(sent, more...)
	}
	return sent
}

// play returns the messages of one occurrence of a story, and when it failed; zero if it did not.
func play(s story, wishes []wish) (sent []message, failed time.Time) {
	stop := s.ack // the first proof that the user reacted, or the end
	if !s.ack.After(s.due) {
		stop = time.Time{} // nobody can react to a message that was not sent
	}
	stopAt := func(at time.Time) {
		if stop.IsZero() || at.Before(stop) {
			stop = at
		}
	}
	if !s.cancel.IsZero() {
		stopAt(s.cancel)
	}
	at, accepted := s.due, false
	for i, step := range s.steps {
		next := func(emitted time.Time) time.Time { // time of the next step
			if i+1 < len(s.steps) {
				return emitted.Add(s.steps[i+1].after)
			}
			return time.Time{}
		}
		planned := next(at)
		for attempt := 0; ; {
			if !stop.IsZero() && !at.Before(stop) {
				return sent, time.Time{}
			}
			w := wishAt(wishes, at)
			if end := w.quietUntil(step.channel, at); !w.refuses(step.channel, s.kind) && !s.high && end.After(at) {
				at = end // later steps move with it
				planned = next(at)
				continue
			}
			outcome := worker.OutcomeSuppressed
			switch {
			case w.refuses(step.channel, s.kind):
			case !slices.Contains(w.addresses, step.channel):
				outcome = worker.OutcomeFailed
			default:
				sent = append(sent, message{s.key, i, step.channel, at})
				outcome = s.answers[i][attempt]
			}
			if outcome == worker.OutcomeAccepted {
				accepted = true
				if s.reports[i] > 0 {
					stopAt(at.Add(s.reports[i]))
				}
			}
			second := at.Add(attemptAfter)
			if outcome == worker.OutcomeRetry && attempt == 0 && (planned.IsZero() || second.Before(planned)) {
				at, attempt = second, attempt+1
				continue
			}
			if outcome == worker.OutcomeFailed || outcome == worker.OutcomeRetry && attempt == 1 {
				planned = at // the next step goes out at once
				if i+1 == len(s.steps) && !accepted {
					failed = at
				}
			}
			break
		}
		at = planned
	}
	return sent, failed
}

func wishAt(all []wish, at time.Time) (w wish) {
	for _, one := range all {
		if !one.from.After(at) {
			w = one
		}
	}
	return w
}

func (w wish) refuses(channel, kind string) bool {
	on, said := w.unwanted[kind]
	return slices.Contains(w.optedOut, channel) || said && kind != "" && (len(on) == 0 || slices.Contains(on, channel))
}

// quietUntil returns the end of the quiet hours at a moment, or the moment itself if it is not
// quiet.
func (w wish) quietUntil(channel string, at time.Time) time.Time {
	q := w.quiet
	if q == nil || len(q.channels) > 0 && !slices.Contains(q.channels, channel) {
		return at
	}
	here := at
	at = at.Add(w.ahead)
	y, m, d := at.In(q.zone).Date()
	for day := -2; day <= 1; day++ {
		midnight := time.Date(y, m, d+day, 0, 0, 0, 0, time.UTC) // as a local time
		if len(q.days) > 0 && !slices.Contains(q.days, midnight.Weekday()) {
			continue
		}
		to := q.to
		if to <= q.from {
			to += 24 * 60
		}
		from, end := q.first(midnight, q.from), q.first(midnight, to)
		if !at.Before(from) && at.Before(end) {
			return w.quietUntil(channel, end.Add(-w.ahead))
		}
	}
	return here
}

// first returns the first instant at which a zone has this local time. A time in a gap is later
// by the length of the gap.
func (q *quietHours) first(midnight time.Time, minutes int) time.Time {
	wall := midnight.Add(time.Duration(minutes) * time.Minute)
	offset := func(at time.Time) time.Duration {
		_, seconds := at.In(q.zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before, after := offset(wall.Add(-36*time.Hour)), offset(wall.Add(36*time.Hour))
	for _, o := range []time.Duration{max(before, after), min(before, after)} {
		if at := wall.Add(-o); offset(at) == o {
			return at
		}
	}
	return wall.Add(-before)
}
