package check

import (
	"slices"
	"testing"
)

// TestOracleHolidays runs the examples of docs/SEMANTICS.md, section 9, and dates next to each other.
func TestOracleHolidays(t *testing.T) {
	christmas := []string{"2026-12-25"}
	for _, c := range []struct {
		rule, start, on string
		dates, include  []string
		want            []string // next names and instants
	}{
		{"FREQ=DAILY", "2026-12-24T09:00", "skip", christmas, nil, []string{
			"2026-12-24T09:00:00 2026-12-24T09:00:00.000Z", "2026-12-26T09:00:00 2026-12-26T09:00:00.000Z",
		}},
		{"FREQ=MONTHLY;BYMONTHDAY=25", "2026-12-01T09:00", onNext, christmas, nil, []string{
			"2026-12-25T09:00:00 2026-12-28T09:00:00.000Z", "2027-01-25T09:00:00 2027-01-25T09:00:00.000Z",
		}},
		{"FREQ=MONTHLY;BYMONTHDAY=25", "2026-12-01T09:00", onPrevious, christmas, nil, []string{
			"2026-12-25T09:00:00 2026-12-24T09:00:00.000Z", "2027-01-25T09:00:00 2027-01-25T09:00:00.000Z",
		}},
		{"FREQ=MONTHLY;BYMONTHDAY=25", "2026-12-01T09:00", onNext, christmas, []string{"2026-12-25T09:00"}, []string{
			"2026-12-25T09:00:00 2026-12-25T09:00:00.000Z", "2027-01-25T09:00:00 2027-01-25T09:00:00.000Z",
		}},
		// Friday to Sunday move to Thursday, and the last of them stands for all.
		{"FREQ=DAILY", "2026-12-23T09:00", onPrevious, christmas, nil, []string{
			"2026-12-23T09:00:00 2026-12-23T09:00:00.000Z", "2026-12-27T09:00:00 2026-12-24T09:00:00.000Z",
			"2026-12-28T09:00:00 2026-12-28T09:00:00.000Z",
		}},
	} {
		listed := map[int64]bool{}
		for _, date := range c.dates {
			w, _, _ := parseWall(date)
			listed[w.day()] = true
		}
		s, err := newSeries(&recurrence{
			text: c.rule, start: c.start, include: c.include, gap: "shift", overlap: "first",
			holidays: newHolidays(c.on, listed),
		}, nil, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for it := s.later(0); len(got) < len(c.want); {
			o, ok := it.next()
			if !ok {
				break
			}
			got = append(got, o.name+" "+spell(o.at))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.rule, c.on, got, c.want)
		}
	}
}
