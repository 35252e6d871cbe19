package topics_test

import (
	"fmt"

	"github.com/waterclock/waterclock/topics"
)

// A producer needs the topic, the partition of the key, and JSON.
func ExampleDecodeCommand() {
	key := []byte("tea")
	fmt.Println(topics.Names{}.Commands(), topics.Partition(key, 16))
	c, err := topics.DecodeCommand(&topics.Record{
		Key: key, Value: []byte(`{"op":"register","delay":"7m","channel":"kitchen"}`),
	}, topics.Limits{}, nil)
	fmt.Println(c.Op, c.Key, c.Spec.When.Delay, c.Spec.Channel, err)

	_, err = topics.DecodeCommand(&topics.Record{Key: key, Value: []byte(`{"op":"register","dealy":"7m"}`)},
		topics.Limits{}, nil)
	fmt.Println(err)
	// Output:
	// waterclock.commands 2
	// register tea 7m0s kitchen <nil>
	// unknown_field (dealy): "dealy" is no field; did you mean delay?
}

// A plan says what a cluster lacks.
func ExamplePlan() {
	want := topics.Catalogue(topics.Names{}, 4, 1, []string{"kitchen"})
	for _, change := range topics.Plan(want, nil) {
		fmt.Println(change)
	}
	// Output:
	// create waterclock.commands
	// create waterclock.receipts
	// create waterclock.state
	// create waterclock.events
	// create waterclock.rejected
	// create waterclock.dead-letter
	// create waterclock.control
	// create waterclock.endpoints
	// create waterclock.watermarks
	// create waterclock.audit
	// create waterclock.due.kitchen
}
