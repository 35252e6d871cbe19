package calendar

import "testing"

// What is counted without walking is what a walk counts.
func TestMissedOnInterval(t *testing.T) {
	closed, err := NewDateSet([]string{"2026-03-03"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{
		{Recurrence: "every:7m"},
		{Recurrence: "every:90s", Until: "2026-03-02T12:00"},
		{Recurrence: "FREQ=MINUTELY;INTERVAL=5;COUNT=100"},
		{Recurrence: "every:1h", Exclude: []string{"2026-03-02T11:00"}},
		{Recurrence: "every:1h", Include: []string{"2026-03-02T11:30"}},
		{
			Recurrence: "every:1h",
			Calendars:  &CalendarRule{Names: []string{"closed"}, On: OnSkip, Sets: []DateSet{closed}},
		},
	} {
		s.Start, s.Zone, s.Limits = "2026-03-02T09:00:00", "Europe/Berlin", Limits{}.Preview()
		r := mustCompile(t, s)
		begin, _ := ParseInstant("2026-03-02T08:00:00Z")
		for _, span := range [][2]int64{
			{-1, 0},
			{-3600_000, -1},
			{0, 419_999},
			{0, 420_000},
			{1, 5_400_000},
			{0, 40_000_000},
			{90_000_000, 95_000_000},
			{0, 200_000_000},
		} {
			after, until := begin+span[0], begin+span[1]
			all, err := r.Between(after, until, 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, most := range []int{3, 1000} {
				n, first, last, err := r.Missed(after, until, most)
				if err != nil || n != min(most, len(all)) || (n > 0 && (first != all[0] || last != all[len(all)-1])) {
					t.Errorf("%s in (%d, %d]: %d from %v to %v, %v; want %d", s.Recurrence, span[0], span[1], n, first,
						last, err, len(all))
				}
			}
		}
	}
}
