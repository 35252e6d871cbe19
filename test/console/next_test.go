package console_test

import "testing"

// The next occurrences of a trigger have the notes of a preview.
func TestNotesOfNextOccurrences(t *testing.T) {
	s := dev(t)
	s.put("night", `{"recurrence":"FREQ=DAILY","start":"2060-03-13T02:30","timezone":"America/New_York"}`)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=night")
	const row = `[aria-label="The next occurrences"] tbody tr:nth-child(2)`
	b.await(row+" td", "Sun 2060-03-14 03:30:00 America/New_York")
	b.await(row+" td:last-child", "gap: shifted 1h")
}
