package calendar_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// 02:30 does not exist in New York on the day that clocks go forward: it fires
// an hour later.
func ExampleRule_Next() {
	rule, err := calendar.Compile(calendar.Embedded(), calendar.Spec{
		Recurrence: "FREQ=DAILY", Start: "2026-03-07T02:30", Zone: "America/New_York",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	after := time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC).UnixMilli()
	for range 3 {
		o, ok, err := rule.Next(after)
		if err != nil || !ok {
			fmt.Println(ok, err)
			return
		}
		fmt.Printf("%s %s %q\n", time.UnixMilli(o.At).UTC().Format(time.RFC3339), rule.LocalTime(o), o.Note)
		after = o.At
	}
	// Output:
	// 2026-03-07T07:30:00Z 2026-03-07T02:30:00[America/New_York] ""
	// 2026-03-08T07:30:00Z 2026-03-08T03:30:00[America/New_York] "gap: shifted 1h"
	// 2026-03-09T06:30:00Z 2026-03-09T02:30:00[America/New_York] ""
}

// A refused rule says where it is wrong and what to write.
func ExampleCompile_refused() {
	_, err := calendar.Compile(calendar.Embedded(), calendar.Spec{Recurrence: "FREQ=DAYLY"})
	fmt.Println(err)
	// Output: invalid_rule (recurrence): FREQ is "DAYLY"; did you mean DAILY? (at character 6)
}
