package slo_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/analytics/slo"
)

// Of 1,000 reminders one was 3 s late. The objective allows one.
func ExampleFold() {
	objective, err := slo.ParseObjective("99.9:1s", time.ParseDuration)
	if err != nil {
		fmt.Println(err)
		return
	}
	nine := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	fold := slo.New(slo.Options{Objective: objective, From: nine, Until: nine.Add(time.Hour)})
	for more := true; more; more = fold.Refine() {
		fold.Partition()
		for i := range int64(1000) {
			late := int64(3)
			if i == 999 {
				late = 3000
			}
			due := nine.Add(time.Duration(i) * time.Second).UnixMilli()
			fold.Add(&slo.Row{
				Offset: i, Type: "occurrence.fired", Trigger: fmt.Sprint("t", i), Tenant: "acme", Channel: "push",
				Attempt: 1, Scheduled: due, OccurredAt: due + late, EventUS: (due + late) * 1000, LatenessMS: &late,
			})
		}
	}
	report := fold.Report()
	fmt.Printf("%d fires, %d late, worst %s\n", report.Total.Fires, report.Total.Late, slo.MS(report.Total.MaxMS))
	fmt.Println("budget", report.Budget.Verdict)
	// Output:
	// 1000 fires, 1 late, worst 3000 ms
	// budget met
}
