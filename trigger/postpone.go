package trigger

import (
	"cmp"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// maxPostponed is how long an occurrence may be postponed, counted from its first emission.
// After that it fails.
const maxPostponed = 7 * 24 * time.Hour

// Codes of postponements and of their end.
const (
	CodeQuietHours       = "quiet_hours" // until a given time, so it is not spread
	CodePreferencesAway  = "preferences_away"
	CodePostponedTooLong = "postponed_too_long"
)

// Postponements are spread: over 5 to 10 s at first, which doubles each time, up to 5 to 10
// min. Otherwise a million occurrences that one open breaker holds back would come at once.
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
		l.NextStep = 0 // planned anew at the next emission
	}
	l.Postponed++
	l.Kind, l.Due = LiveRetry, r.At.Add(wait)
	d.addLive(*l)
	d.deriveStatus()
	d.addReceiptFact(l, r).Scheduled = l.Due
}

// firstSent is when an occurrence was first emitted, counted anew after a redrive; 0 if
// unknown.
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

// postponeSpread is the extra wait of an occurrence that was postponed n times before. It
// depends on the hash of its ce_id and of n. Without n the same occurrence would come first
// each time, and try each time whether an endpoint answers, until it has no attempt left.
func postponeSpread(id string, n int) time.Duration {
	window := min(firstSpread<<min(n, 10), maxSpread)
	return window/2 + calendar.Jitter(id, strconv.Itoa(n), window/2)
}
