package engine_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// An engine turns a command into a due event.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	options, stop, err := pipelinetest.Minimal(ctx, "kitchen") // a broker in this process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	e, err := engine.New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()

	client, err := kgo.NewClient(append(slices.Clone(options.Kafka),
		kgo.ConsumeTopics("waterclock.due.kitchen"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	client.Produce(ctx, &kgo.Record{
		Topic: "waterclock.commands", Key: []byte("tea"), Value: []byte(`{"say":"tea is ready"}`),
		Headers: []kgo.RecordHeader{
			{Key: "wc-delay", Value: []byte("100ms")},
			{Key: "wc-channel", Value: []byte("kitchen")},
		},
	}, nil)
	for _, due := range client.PollRecords(ctx, 1).Records() {
		fmt.Printf("%s: %s %s\n", due.Topic, due.Key, due.Value)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// waterclock.due.kitchen: tea {"say":"tea is ready"}
	// <nil>
}
