package topics

import (
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Notes say in an answer what may surprise the sender of a command that was
// obeyed: next is the instant that it planned, 0 if none. A repeat is told what
// its content means, not what its first sending did.
func Notes(when *trigger.When, appended, next trigger.Instant, repeat bool) (notes []string) {
	if next == 0 {
		return nil
	}
	switch when.Kind {
	case trigger.WhenInstant, trigger.WhenLocal:
		if ago := time.Duration(appended-next) * time.Millisecond; ago >= time.Second && !repeat {
			notes = append(notes, fmt.Sprintf("its time passed %v ago: it is due at once", ago.Truncate(time.Second)))
		}
	case trigger.WhenRecurrence:
		if when.Zone == "" && zoneMatters(when) {
			notes = append(notes, "no timezone was given: its times are UTC, the next is "+time.UnixMilli(int64(next)).
				UTC().Format("15:04")+" UTC")
		}
	}
	return notes
}

// NoteNewChannel is the note of a channel on which nothing has fired yet.
func NoteNewChannel(channel string) string { return "channel " + channel + " is new" }

// NoteNobody is the note of a channel that waits for receipts and that no consumer
// group reads.
func NoteNobody(channel string) string {
	return "nobody serves channel " + channel + " now: no consumer group reads its due topic; without a receipt its " +
		"occurrences end as dead letters"
}

// zoneMatters says that a recurrence names times of day or days, which differ
// from zone to zone, and that its start does not tell which is meant.
func zoneMatters(w *trigger.When) bool {
	if strings.HasSuffix(w.Start, "Z") || len(w.Start) > len("2006-01-02T15") &&
		strings.ContainsAny(w.Start[len("2006-01-02T15"):], "+-") {
		return false
	}
	rule := strings.TrimPrefix(strings.ToUpper(w.Recurrence), "RRULE:")
	switch {
	case strings.HasPrefix(rule, "EVERY:"):
		return false
	case strings.HasPrefix(rule, "CRON:"):
		f := strings.Fields(rule[len("CRON:"):])
		return len(f) != 5 || f[1] != "*" || f[2] != "*" || f[3] != "*" || f[4] != "*"
	case strings.Contains(rule, "FREQ=HOURLY"), strings.Contains(rule, "FREQ=MINUTELY"),
		strings.Contains(rule, "FREQ=SECONDLY"):
		return strings.Contains(rule, "BYHOUR") || strings.Contains(rule, "DAY") || strings.Contains(rule, "BYMONTH")
	}
	return rule != ""
}
