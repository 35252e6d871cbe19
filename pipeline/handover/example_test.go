package handover_test

import (
	"errors"
	"fmt"

	"github.com/waterclock/waterclock/pipeline/handover"
	"github.com/waterclock/waterclock/topics"
)

// The last owner has read topic commands up to offset 50. The log now begins at 80, so 30
// acknowledged commands are gone. Only an operator can accept that.
func ExampleBegin() {
	left := handover.Left{Progress: topics.Progress{Seq: 9, NextCommand: 50, Member: "a"}}
	found := handover.Found{
		Commands: handover.Log{Topic: "commands", Start: 80, End: 90},
		Receipts: handover.Log{Topic: "receipts"},
	}
	open := func(accept handover.Accept) {
		r, err := handover.Begin(handover.Owner{Partition: 3, Member: "b"}, left, found, accept)
		if err == nil {
			_, err = r.Next() // no question: nothing is left to compare
		}
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		fmt.Printf("taken from %s, commands from %d\n", r.Result().TakenFrom, r.Result().Follow[0].Next)
	}
	open(func(_ int64, lost string) error { return errors.New(lost) })
	open(func(int64, string) error { return nil })
	// Output:
	// refused: commands/3 begins at 80, but was read only up to 50
	// taken from a, commands from 80
}
