package pipeline_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// One partition without a consumer group: open it, run its turns, and read a trigger
// behind the read barrier. Package engine does this for every partition that it owns.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	options, stop, err := pipelinetest.Minimal(ctx, "default") // a broker in this process
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	client, err := kgo.NewClient(options.Kafka...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	process, err := pipeline.NewProcess(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer process.Close()
	process.Connect(client)
	p, err := process.Open(ctx, 0, process.NewKept(0), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()

	err = client.ProduceSync(ctx, &kgo.Record{
		Topic: "waterclock.commands", Key: []byte("rent"),
		Value: []byte(`{"op":"register","recurrence":"cron:0 9 1 * *","timezone":"Europe/Berlin"}`),
	}).FirstErr()
	if err != nil {
		fmt.Println(err)
		return
	}
	commands := kafkapart.NewEndReader(client, "waterclock.commands", kafkapart.ReadCommitted)
	if err := p.View().Await(ctx, commands); err != nil {
		fmt.Println(err)
		return
	}
	state, err := p.View().Get("rent")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(state.Key, state.Status, state.Revision)
	cancel()
	fmt.Println(errors.Is(<-ended, context.Canceled))
	// Output:
	// rent PENDING 1
	// true
}
