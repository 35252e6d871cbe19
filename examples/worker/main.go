// Command worker is a channel of your own: it reads due events, does the work,
// and answers each with a receipt. Run it beside `waterclock dev`, with the
// channel told to wait for receipts:
//
//	waterclock dev --set channels.print.receipts=true
//	go run ./examples/worker -channel print
//	waterclock schedule hello --in 2s --channel print --data '"hello"'
//	waterclock watch hello
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"

	"github.com/waterclock/waterclock/clients/go/worker"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, comma-separated")
	channel := flag.String("channel", "print", "channel to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := worker.Run(ctx, *channel, work, worker.Brokers(strings.Split(*brokers, ",")...)); err != nil {
		log.Fatal(err)
	}
}

// work does what is due and says what became of it. worker.Retry would bring
// the due event again, after the channel's profile; the waiting is the engine's.
func work(_ context.Context, e *worker.DueEvent) (worker.Result, error) {
	fmt.Printf("%s attempt %d: %s\n", e.ID, e.Attempt, e.Payload)
	return worker.Delivered(), nil
}
