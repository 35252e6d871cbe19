package trigger

import (
	"fmt"
	"slices"
	"testing"
)

// What calendars and gaps leave out is listed with the reason; what they move is not.
func TestLeftOut(t *testing.T) {
	const us = "left out: a day of calendar us"
	rule := func(start, zone string) When {
		return When{Kind: WhenRecurrence, Recurrence: "FREQ=DAILY", Start: start, Zone: zone}
	}
	on := func(on string) When {
		w := rule("2026-11-25T09:00", "Europe/Berlin")
		w.Calendars = &Calendars{Names: []string{"us"}, On: on}
		return w
	}
	gap := func(gap string) When {
		w := rule("2026-03-07T02:30", "America/New_York")
		w.DST.Gap = gap
		return w
	}
	for _, c := range []struct {
		name         string
		when         When
		after, until string
		n            int
		want         []string
	}{
		{"days", on("skip"), "2026-11-20T00:00:00Z", "2026-11-30T00:00:00Z", 10, []string{
			"2026-11-26T08:00:00.000Z 2026-11-26T09:00:00 2026-11-26T09:00:00[Europe/Berlin] " + us,
			"2026-11-27T08:00:00.000Z 2026-11-27T09:00:00 2026-11-27T09:00:00[Europe/Berlin] " + us,
		}},
		{"the first one", on("skip"), "2026-11-20T00:00:00Z", "2026-11-30T00:00:00Z", 1, []string{
			"2026-11-26T08:00:00.000Z 2026-11-26T09:00:00 2026-11-26T09:00:00[Europe/Berlin] " + us,
		}},
		{"before them", on("skip"), "2026-11-20T00:00:00Z", "2026-11-26T07:00:00Z", 10, nil},
		{"moved days", on("next_business_day"), "2026-11-20T00:00:00Z", "2026-11-30T00:00:00Z", 10, nil},
		{"a gap", gap("skip"), "2026-03-07T00:00:00Z", "2026-03-20T00:00:00Z", 10, []string{
			"2026-03-08T07:00:00.000Z 2026-03-08T02:30:00 2026-03-08T02:30:00[America/New_York] " +
				"gap: skipped, clocks jump from 02:00 to 03:00",
		}},
		{"a gap that shifts", gap(""), "2026-03-07T00:00:00Z", "2026-03-20T00:00:00Z", 10, nil},
		{
			"once",
			When{Kind: WhenInstant, FireAt: instant("2026-11-26T08:00:00Z")},
			"2026-11-20T00:00:00Z",
			"2026-11-30T00:00:00Z", 10, nil,
		},
	} {
		w := newWorld(t, instant("2026-03-02T00:00:00Z"))
		if err := w.machine.Timetable.PutCalendar("us", []string{"2026-11-26", "2026-11-27"}); err != nil {
			t.Fatal(err)
		}
		if out := w.command(&Command{
			Op: OpRegister, Key: "k", From: w.origin(), Spec: &Spec{When: c.when, Channel: "default"},
		}); out.Rejected != nil {
			t.Fatalf("%s: %v", c.name, out.Rejected)
		}
		var got []string
		for _, p := range w.machine.Timetable.LeftOut(w.states["k"], instant(c.after), instant(c.until), c.n) {
			got = append(got, fmt.Sprint(p.At, " ", p.Occurrence, " ", p.Local, " ", p.Note))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
