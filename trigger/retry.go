package trigger

import "time"

// retry plans the next attempt of a failed delivery, after the time in the receipt or in the
// channel's retry profile. If the profile has no attempt left, the occurrence has failed.
func (d *decision) retry(l *Live, after time.Duration, from Instant, reason, detail string) {
	profile := d.profile(l)
	if l.Attempt-l.AttemptsBeforeRedrive > len(profile) {
		over := noAttemptLeft
		if detail != "" { // whoever reads the dead letter wants the last answer
			over += ": " + detail
		}
		d.fail(l, Fact{Type: DeliveryFailed, Reason: reason, Detail: detail}, reason, over)
		return
	}
	if after <= 0 {
		after = profile[l.Attempt-l.AttemptsBeforeRedrive-1]
	}
	l.Attempt++
	l.Kind, l.Due = LiveRetry, from.Add(after)
	d.addLive(*l)
	d.addFactOf(l, Fact{Type: DeliveryRetried, Scheduled: l.Due, Reason: reason, Detail: detail})
}

const noAttemptLeft = "no attempt is left"

func (d *decision) profile(l *Live) []time.Duration {
	spec := d.content(l)
	channel := spec.ChannelOfStep(l.Step)
	if spec.Callback != nil && spec.Callback.Retry != nil && channel == CallbackChannel {
		return spec.Callback.Retry // an empty list asks for one attempt
	}
	return d.m.Channel(channel).Retry
}

// deadLetter sends an occurrence to the dead letters.
func (d *decision) deadLetter(l *Live, code, detail string) {
	f := d.dueEvent(l)
	f.Fired, f.FirstFired = d.sentAt(l), d.s.firstFiredOf(l)
	d.out.Dead = append(d.out.Dead, DeadLetter{Fire: f, Code: code, Detail: detail})
	d.addFactOf(l, Fact{Type: DeadLettered, Scheduled: l.Nominal, Reason: code, Detail: detail})
}

// sentAt is when the attempt in flight went out, computed from its time-out. It is 0 if
// there is none, or if receipt_timeout was changed so that the result is impossible.
func (d *decision) sentAt(l *Live) Instant {
	if l.Kind != LiveInFlight {
		return 0
	}
	at := l.Due - Instant(d.channel(l).ReceiptTimeout.Milliseconds())
	if at < l.Nominal || at > d.now {
		return 0
	}
	return at
}
