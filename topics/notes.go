package topics

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Notes are sentences in the answer to an accepted command that may surprise its sender. next
// is the instant that the command planned, 0 if none. The notes for a repeat are about its
// content, not about what the first one did.
func Notes(when *trigger.When, appended, next trigger.Instant, repeat bool) (notes []string) {
	if next == 0 {
		return nil
	}
	switch when.Kind {
	case trigger.WhenInstant, trigger.WhenLocal:
		if ago := time.Duration(appended-next) * time.Millisecond; ago >= time.Second && !repeat {
			notes = append(notes, fmt.Sprintf("its time passed %v ago: it is due at once", ago.Truncate(time.Second)))
		}
		if when.Calendars != nil { // accepted, because it always was
			notes = append(notes, "calendars has no effect on a time that fires once: it needs a recurrence")
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

// NoteNobody is the note about a channel with receipts that no consumer group reads.
func NoteNobody(channel string) string {
	return "nobody serves channel " + channel + " now: no consumer group reads its due topic; without a receipt its " +
		"occurrences end as dead letters"
}

// NotificationChannels are the channels of the notifications that our workers send by providers.
var NotificationChannels = []string{"push", "sms", "email"}

// NoteContent is the note of a register for push, sms or email whose payload our workers cannot
// send: it fails only when it fires. "" if there is nothing to say.
func NoteContent(s *trigger.Spec) string {
	i := slices.IndexFunc(s.Channels(), func(c string) bool { return slices.Contains(NotificationChannels, c) })
	if i < 0 {
		return ""
	}
	var content map[string]json.RawMessage
	if json.Unmarshal(s.Payload, &content) == nil {
		for _, name := range []string{"title", "body", "template_id"} {
			if text := string(content[name]); text != "" && text != `""` && text != "null" {
				return ""
			}
		}
	}
	return "the payload has none of title, body and template_id: a worker of channel " + s.Channels()[i] +
		" that comes with Waterclock cannot send it (invalid_payload)"
}

// zoneMatters reports whether a recurrence depends on the zone, because it names days or
// times of day, and its start has no zone either.
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
