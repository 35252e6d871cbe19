package barrier_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/trigger"
)

// A timer is due at 1000. It fires only after all commands have been read that were there at 1000,
// because one of them may be its cancel.
func Example() {
	now := time.UnixMilli(1000)
	b := barrier.New(barrier.Start{Topic: "commands", Offset: 10}, barrier.Start{Topic: "receipts"}, time.Second, now)
	due := barrier.Demand{InWheel: true, Wheel: trigger.At(now)}

	round := b.Begin(trigger.At(now), due)
	fmt.Println("ask for the ends:", round.Next(now).Ask == barrier.Ends)
	round.Ends(trigger.At(now), 12, 0) // two commands are unread
	fmt.Println("fire:", b.Commands.Reached())
	b.Read("commands", 12, now)
	fmt.Println("fire:", b.Commands.Reached())
	// Output:
	// ask for the ends: true
	// fire: false
	// fire: true
}
