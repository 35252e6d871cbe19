package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// zoneOf is the zone in which times are said: the trigger's, or nil for UTC.
func zoneOf(in *Input) *calendar.Zone {
	if in.Zones == nil {
		return nil
	}
	name := ""
	if in.State != nil {
		name = in.State.Spec.When.Zone
	}
	for i := len(in.Events) - 1; i >= 0 && name == ""; i-- {
		name = in.Events[i].Timezone
	}
	if name == "" {
		return nil
	}
	z, err := in.Zones.Lookup(name)
	if err != nil {
		return nil // its release lacks the zone
	}
	return z
}

// at is an instant in words: Mon 2026-11-23 09:00 America/New_York. A time that clocks show twice has its offset.
func (x *explanation) at(i trigger.Instant) string {
	if x.zone == nil {
		return inWords(i.Time(), "UTC")
	}
	wall := x.zone.Wall(int64(i))
	text := inWords(time.UnixMilli(int64(wall)).UTC(), x.zone.Name())
	if x.zone.Resolve(wall, calendar.DST{})[0].Twice {
		text += i.Time().In(time.FixedZone("", x.zone.Offset(int64(i)))).Format(" (UTC-07:00)")
	}
	return text
}

func inWords(wall time.Time, zone string) string {
	layout := "Mon 2006-01-02 15:04"
	if wall.Second() != 0 || wall.Nanosecond() != 0 {
		layout += ":05"
	}
	return wall.Format(layout) + " " + zone
}

// Took is a duration in words, with its two largest units: 12 ms, 1.5 s, 5 min 1 s, 2 h, 3 d 4 h. The console's took
// (assets/time.js) draws it the same.
func Took(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + " s"
	case d < time.Hour:
		return inTwo(d, time.Minute, "min", time.Second, "s")
	case d < 24*time.Hour:
		return inTwo(d, time.Hour, "h", time.Minute, "min")
	}
	return inTwo(d, 24*time.Hour, "d", time.Hour, "h")
}

// milliseconds is a lateness as events have it.
func milliseconds(ms int64) time.Duration {
	return time.Duration(min(max(0, ms), 1<<40)) * time.Millisecond
}

func inTwo(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d %s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, smallName)
	}
	return text
}

// when is at for the text of an instant, as events have it.
func (x *explanation) when(text string) string {
	ms, err := calendar.ParseInstant(text)
	if err != nil {
		return plain(text, maxSnippet)
	}
	return x.at(trigger.Instant(ms))
}

// drawn is an event whose times are drawn as in sentences. How late an occurrence was when it expired is computed from
// the times of its event, so these stay.
func (x *explanation) drawn(e *topics.Event) *topics.Event {
	d := *e
	d.Occurrence = x.occurrence(e.Occurrence)
	if e.Type == string(trigger.OccurrenceExpired) {
		return &d
	}
	d.LocalTime = "" // it is the scheduled time, spelt as due events have it
	for _, text := range []*string{&d.OccurredAt, &d.ScheduledAt, &d.PreviousScheduled, &d.First, &d.Last} {
		*text = x.when(*text)
	}
	return &d
}

// occurrence is an occurrence as a time, if its id is one: an instant, or a wall time of the trigger's zone.
// One of a key that was registered anew ends with ~ and that command's place, which is not drawn.
func (x *explanation) occurrence(id string) string {
	bare, _, _ := strings.Cut(id, "~")
	if wall, err := time.Parse("2006-01-02T15:04:05", bare); err == nil && x.zone != nil {
		return inWords(wall, x.zone.Name())
	}
	if _, err := calendar.ParseInstant(bare); err == nil {
		return x.when(bare)
	}
	return plain(id, maxSnippet)
}

// instantOf reads the text of an instant; 0 for anything else.
func instantOf(text string) trigger.Instant {
	ms, err := calendar.ParseInstant(text)
	if err != nil {
		return 0
	}
	return trigger.Instant(ms)
}

// plain spells what does not print, and cuts a text to a number of bytes. Control, zero-width
// and bidirectional characters would change how the text around them reads.
func plain(s string, most int) string {
	if len(s) > 4*most {
		s = s[:4*most] // a bound on the work; it is cut below
	}
	return cut(printable.Text(strings.ToValidUTF8(s, "\uFFFD")), most)
}

// cut shortens a text to a number of bytes, at the end of a character.
func cut(s string, most int) string {
	const more = "…"
	if len(s) <= most {
		return s
	}
	n := most - len(more)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + more
}
