package fair_test

import (
	"fmt"

	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// A tenant with very many timers delays another tenant's by 32 timers, because tenants take turns.
func ExampleQueue() {
	q := fair.New(0)
	push := func(key trigger.Key) {
		timer := trigger.Timer{Due: 1000, Kind: trigger.TimerSeries, Occurrence: "o"}
		q.Push(statestore.DueKey{Due: 1000, Ref: statestore.Ref(timer, key)}, 1000)
	}
	for i := range 1000 {
		push(trigger.Key(fmt.Sprint("acme/", i)))
	}
	push("blue/a")
	for i, d := range q.Take(100, 1000).Due {
		if _, key, _, _, _ := statestore.ParseRef(d.Ref); key == "blue/a" {
			fmt.Println(i, "timers fired before", key)
		}
	}
	// Output: 32 timers fired before blue/a
}
