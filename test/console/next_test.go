package console_test

import "testing"

// The next occurrences of a trigger have the notes of a preview, and in its place what a calendar leaves out.
func TestNotesOfNextOccurrences(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/calendars/us", `{"dates":["2060-03-15"]}`)
	s.put("night", `{"recurrence":"FREQ=DAILY","start":"2060-03-13T02:30","timezone":"America/New_York",`+
		`"calendars":{"names":["us"],"on":"skip"}}`)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=night")
	const row = `[aria-label="The next occurrences"] tbody tr`
	b.await(row+":nth-child(2) td", "Sun 2060-03-14 03:30:00 America/New_York")
	b.await(row+":nth-child(2) td:last-child", "gap: shifted 1h")
	b.await(row+":nth-child(3) td", "Mon 2060-03-15 02:30:00 America/New_York")
	b.await(row+":nth-child(3) td:last-child", "Does not fire: a day of calendar us")
	b.await(row+":nth-child(4) td", "Tue 2060-03-16 02:30:00 America/New_York")
}
