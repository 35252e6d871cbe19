package templates

import (
	"errors"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// LocalTime is a local time in a zone. It prints as 2026-11-20 09:00.
type LocalTime struct {
	wall time.Time // the local time, stored as UTC
	Zone string    // IANA name
}

// ParseLocalTime parses ce_wclocaltime: 2026-11-20T09:00:00[America/New_York].
func ParseLocalTime(text string) (t LocalTime, ok bool) {
	reading, zone, ok := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	if !ok {
		return t, false
	}
	wall, err := time.Parse("2006-01-02T15:04:05", reading)
	return LocalTime{wall, zone}, err == nil
}

// LocalTimeAt converts an instant into a zone's local time. An unknown zone counts as UTC.
func LocalTimeAt(at time.Time, zone string, zones *calendar.Zones) LocalTime {
	if zones != nil && zone != "" {
		if z, err := zones.Lookup(zone); err == nil {
			return LocalTime{time.UnixMilli(int64(z.Wall(at.UnixMilli()))).UTC(), zone}
		}
	}
	return LocalTime{at.UTC(), "UTC"}
}

func (t LocalTime) String() string { return t.wall.Format("2006-01-02 15:04") }

// Clock returns the time in the form 09:00.
func (t LocalTime) Clock() string { return t.wall.Format("15:04") }

// Date returns the date in the form 2026-11-20.
func (t LocalTime) Date() string { return t.wall.Format("2006-01-02") }

// Hour returns 0 to 23. The numbers are for languages that package time does not support.
func (t LocalTime) Hour() int { return t.wall.Hour() }

// Minute returns 0 to 59.
func (t LocalTime) Minute() int { return t.wall.Minute() }

// Day returns 1 to 31.
func (t LocalTime) Day() int { return t.wall.Day() }

// Month returns 1 to 12.
func (t LocalTime) Month() int { return int(t.wall.Month()) }

// Year returns the year.
func (t LocalTime) Year() int { return t.wall.Year() }

// Weekday returns 1 for Monday to 7 for Sunday.
func (t LocalTime) Weekday() int { return (int(t.wall.Weekday())+6)%7 + 1 }

// Format formats the time by a layout of package time, in English: "Mon 2 Jan, 3:04 PM".
func (t LocalTime) Format(layout string) (string, error) {
	if len(layout) > 100 {
		return "", errors.New("a layout is at most 100 bytes")
	}
	return t.wall.Format(layout), nil
}
