package calendar

import (
	"fmt"
	"testing"
	"time"

	"github.com/teambition/rrule-go"
)

// BenchmarkPlain asks rrule-go itself, as it comes, what BenchmarkNext asks
// us: what follows an instant, of a series that began years ago. The library
// walks there from the start each time. Both in one run make a ratio.
func BenchmarkPlain(b *testing.B) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, rule string }{
		{"yearly", "FREQ=YEARLY"},
		{"monthly_last_weekday", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"},
		{"weekly", "FREQ=WEEKLY;BYDAY=MO,WE,FR"},
		{"daily", "FREQ=DAILY"},
		{"hourly", "FREQ=HOURLY"},
		{"minutely_business_hours", "FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11,12,13,14,15,16;BYDAY=MO,TU,WE,TH,FR"},
	} {
		for _, years := range []int{1, 10, 50} {
			b.Run(fmt.Sprintf("rule=%s/years=%d", c.name, years), func(b *testing.B) {
				option, err := rrule.StrToROption(c.rule)
				if err != nil {
					b.Fatal(err)
				}
				option.Dtstart = time.Date(2026-years, 1, 15, 9, 0, 0, 0, newYork)
				r, err := rrule.NewRRule(*option)
				if err != nil {
					b.Fatal(err)
				}
				after := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
				b.ReportAllocs()
				for b.Loop() {
					if !r.After(after, false).After(after) {
						b.Fatal("nothing follows")
					}
				}
			})
		}
	}
}
