package output_test

import (
	"fmt"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
)

// Only due topics may refuse records while turns go on: the engine's own topics may not.
func ExampleTopics_Spares() {
	due := output.New(output.Config{Names: topics.Names{Prefix: "waterclock."}, Partitions: 16}, nil)
	for _, topic := range []string{"waterclock.due.orders", "a-topic-of-the-orders-team", "waterclock.state"} {
		fmt.Println(topic, due.Spares(topic))
	}
	// Output:
	// waterclock.due.orders true
	// a-topic-of-the-orders-team true
	// waterclock.state false
}

// A turn writes to the due partition of its own number, and to all of them where keys are spread by
// their hash.
func ExampleTopic_WrittenBy() {
	fmt.Println((&output.Topic{Name: "due.orders", Partitions: 16}).WrittenBy(3))
	fmt.Println((&output.Topic{Name: "orders", Partitions: 2, ByKey: true}).WrittenBy(3))
	// Output:
	// [{due.orders 3}]
	// [{orders 0} {orders 1}]
}
