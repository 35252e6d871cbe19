package dangling_test

import (
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/pipeline/dangling"
)

// The last transaction was aborted, and its end has not reached one partition of topic state. That
// partition is ended before the new owner writes a record.
func ExampleResolution() {
	isDue := func(topic string) bool { return strings.HasPrefix(topic, "due.") }
	r := dangling.NewResolution(dangling.Aborted, nil, isDue, func(string, ...any) {})
	left := []dangling.TopicPartition{{Topic: "state", Partition: 3}}
	for {
		step := r.Next()
		fmt.Println(step.Do, step.How, step.At)
		switch step.Do { // the caller asks Kafka, and reports the answer
		case dangling.Inspect:
			_ = r.Inspected(dangling.Leftover{Ours: left})
		case dangling.End:
			_ = r.Ended(nil)
		case dangling.Check:
			_ = r.Checked(dangling.Leftover{})
		default:
			return
		}
	}
	// Output:
	// inspect  []
	// end aborted [{state 3}]
	// check aborted [{state 3}]
	// done  []
}
