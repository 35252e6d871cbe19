package trigger

import (
	"cmp"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// maxPostponed is how long an occurrence may be postponed since it first went
// out. Later it has failed.
const maxPostponed = 7 * 24 * time.Hour

// The codes that a postponement may have, or ends with.
const (
	CodeQuietHours       = "quiet_hours" // a postponement until a given minute: not spread
	CodePreferencesAway  = "preferences_away"
	CodePostponedTooLong = "postponed_too_long"
)

// Postponements are spread: over 5 to 10 s at first, which doubles each time, up to
// 5 to 10 min. Else a million that one open breaker holds back would come at once.
const (
	firstSpread = 10 * time.Second
	maxSpread   = 10 * time.Minute
)

// postpone sends a due event again later, as the same attempt.
func (d *decision) postpone(l *Live, r *Receipt) {
	if l.FirstSent == 0 {
		l.FirstSent = cmp.Or(d.firstSent(l), r.At)
	}
	if r.At.Sub(l.FirstSent) > maxPostponed {
		failure := Fact{Type: DeliveryFailed, Reason: CodePostponedTooLong, Detail: r.Detail}
		d.fail(l, failure, CodePostponedTooLong, r.Detail)
		return
	}
	wait := max(r.RetryAfter, time.Second)
	if r.Code != CodeQuietHours {
		wait += postponeSpread(DueID(d.s.Key, l.Occurrence, l.Step), l.Postponed)
	}
	if r.Code == CodeQuietHours || r.Code == CodePreferencesAway {
		l.NextStep = 0 // counted anew from the emission that goes out
	}
	l.Postponed++
	l.Kind, l.Due = LiveRetry, r.At.Add(wait)
	d.addLive(*l)
	d.deriveStatus()
	d.addReceiptFact(l, r).Scheduled = l.Due
}

// firstSent is when an occurrence first went out, or first since it was redriven;
// 0 if that is not known.
func (d *decision) firstSent(l *Live) Instant {
	if l.AttemptsBeforeRedrive == 0 && l.Step == 0 {
		for i := range d.s.Done {
			if d.s.Done[i].Occurrence == l.Occurrence {
				return d.s.Done[i].At
			}
		}
	}
	return d.sentAt(l)
}

// postponeSpread is what an occurrence that was postponed n times before waits longer, by
// the hash of its ce_id.
func postponeSpread(id string, n int) time.Duration {
	window := min(firstSpread<<min(n, 10), maxSpread)
	return window/2 + calendar.Jitter(id, "", window/2)
}
