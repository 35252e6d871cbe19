package explain

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/printable"
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

// at is an instant in words: Mon 2026-11-23 09:00 America/New_York.
func (x *explanation) at(i trigger.Instant) string {
	wall, name := i.Time(), "UTC"
	if x.zone != nil {
		wall, name = time.UnixMilli(int64(x.zone.Wall(int64(i)))).UTC(), x.zone.Name()
	}
	layout := "Mon 2006-01-02 15:04"
	if wall.Second() != 0 || wall.Nanosecond() != 0 {
		layout += ":05"
	}
	return wall.Format(layout) + " " + name
}

// when is at for the text of an instant, as events have it.
func (x *explanation) when(text string) string {
	ms, err := calendar.ParseInstant(text)
	if err != nil {
		return plain(text, maxSnippet)
	}
	return x.at(trigger.Instant(ms))
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
