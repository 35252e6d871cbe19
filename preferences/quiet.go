package preferences

import "github.com/waterclock/waterclock/calendar"

const (
	msPerMinute = int64(60_000)
	msPerDay    = calendar.Wall(minutesPerDay * msPerMinute)
)

// maxJoined is how many adjacent periods of quiet hours are joined into one. If every day is
// quiet, there would be no end.
const maxJoined = 8

// until returns the first instant at or after now, in unix milliseconds, that is not quiet. quiet
// is false if now itself is not. At most maxJoined adjacent periods are joined, so the caller
// must check once more at the end.
func (q *Quiet) until(now int64, zone *calendar.Zone) (end int64, quiet bool) {
	end = now
	for range maxJoined {
		next, in := q.stretch(end, zone)
		if !in {
			break
		}
		end, quiet = next, true
	}
	return end, quiet
}

// stretch finds the quiet hours that contain an instant. Hours that began up to two local days
// earlier may still last: one day for hours over midnight, and one for a day that the zone
// skipped. A clock change can also put the instant on the date before the one on which the hours
// began.
func (q *Quiet) stretch(at int64, zone *calendar.Zone) (end int64, in bool) {
	today := zone.Wall(at).Date()
	for day := today - 2; day <= today+1; day++ {
		if !q.Days.has(day) {
			continue
		}
		from, to := q.on(day, zone)
		if from <= at && at < to {
			return to, true
		}
	}
	return 0, false
}

// on returns the instants at which the hours of a day begin and end. A clock change can make them
// empty: then to is not after from.
func (q *Quiet) on(day calendar.Date, zone *calendar.Zone) (from, to int64) {
	midnight := calendar.Wall(day) * msPerDay
	begin := midnight + calendar.Wall(int64(q.From)*msPerMinute)
	finish := midnight + calendar.Wall(int64(q.To)*msPerMinute)
	if q.To <= q.From {
		finish += msPerDay
	}
	return zone.ResolveFirst(begin), zone.ResolveFirst(finish)
}
