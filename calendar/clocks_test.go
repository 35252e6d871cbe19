package calendar

import (
	"slices"
	"testing"
	"time"
)

// The changes of a spring: America/New_York loses the hour from 2:00 on 14 March 2027, and London that from 1:00 on
// 28 March. A zone that never changes is in none, and an offset that only gets another name is no change.
func TestClockChanges(t *testing.T) {
	ms := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	of := func(from, to, zone string) (all []ClockChange) {
		for _, c := range Embedded().ClockChanges(ms(from), ms(to)) {
			if slices.Contains(c.Zones, zone) {
				all = append(all, c)
			}
		}
		return all
	}
	for _, c := range []struct {
		zone, at string
		shift    time.Duration
	}{
		{"America/New_York", "2027-03-14T07:00:00Z", time.Hour},
		{"Europe/London", "2027-03-28T01:00:00Z", time.Hour},
		{"Australia/Lord_Howe", "2027-04-03T15:00:00Z", -30 * time.Minute},
	} {
		got := of("2027-03-01T00:00:00Z", "2027-04-30T00:00:00Z", c.zone)
		if len(got) != 1 || got[0].At != ms(c.at) || got[0].Shift != c.shift {
			t.Errorf("%s has %+v, want %s by %v", c.zone, got, c.at, c.shift)
		}
	}
	const change = "2027-03-14T07:00:00Z"
	if got := of(change, "2027-03-20T00:00:00Z", "America/New_York"); len(got) != 0 {
		t.Errorf("right after it: %+v", got)
	}
	if got := of("2027-03-14T06:59:59Z", change, "America/New_York"); len(got) != 1 {
		t.Errorf("up to it: %+v", got)
	}
	all := Embedded().ClockChanges(ms("2027-03-01T00:00:00Z"), ms("2027-04-30T00:00:00Z"))
	if !slices.IsSortedFunc(all, func(a, b ClockChange) int { return int(a.At - b.At) }) {
		t.Errorf("not in order: %+v", all)
	}
	if got := of("2026-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "Asia/Tokyo"); len(got) != 0 {
		t.Errorf("Tokyo has %+v", got)
	}
}
