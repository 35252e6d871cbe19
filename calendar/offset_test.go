package calendar

import "testing"

// TestFormatHasTheOffset: an offset may have minutes, and may be west of UTC.
func TestFormatHasTheOffset(t *testing.T) {
	for zone, want := range map[string]string{
		"UTC":              "2026-01-15T12:00:00Z",
		"Asia/Kathmandu":   "2026-01-15T17:45:00+05:45",
		"America/St_Johns": "2026-01-15T08:30:00-03:30",
		"Europe/Berlin":    "2026-01-15T13:00:00+01:00",
	} {
		z := Embedded().find(zone)
		if z == nil {
			t.Fatal(zone, "is unknown")
		}
		if got := z.format(1_768_478_400_000); got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
}
