package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// Page System says which clocks change soon, and whether one's own are among them.
func TestClocksChange(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.do(emulation.SetTimezoneOverride("America/New_York"))
	b.visit("triggers")
	b.stub("GET", "/v1/tzdata", 200, `{"active":{"label":"2025c","zones":3},"embedded":{"label":"2025c","zones":3},`+
		`"same":true,"ahead":false,"changes":[],"clock_changes":[{"at":"2027-03-14T07:00:00.000Z","shift_seconds":3600,`+
		`"zones":["America/Detroit","America/New_York"]},{"at":"2027-04-03T15:00:00.000Z","shift_seconds":-1800,`+
		`"zones":["A/1","A/2","A/3","A/4","A/5","A/6","A/7","A/8","Australia/Lord_Howe"]}]}`)
	b.click("System")
	b.await("#clocks", "Sun 2027-03-14 07:00:00 UTC: forward by 1 h in America/New_York, America/Detroit")
	b.await("#clocks", "Sat 2027-04-03 15:00:00 UTC: back by 30 min in A/1, A/2, A/3, A/4, A/5, A/6, A/7, "+
		"A/8 and 1 more")
	b.stub("GET", "/v1/tzdata", 200, `{"active":{"label":"2025c","zones":3},"embedded":{"label":"2025c","zones":3},`+
		`"same":true,"ahead":false,"changes":[],"clock_changes":[]}`)
	b.click("Triggers")
	b.click("System")
	b.await("main", "Clocks change within 14 daysIn no zone.")
}
