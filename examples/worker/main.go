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
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "Kafka brokers, comma-separated")
	channel := flag.String("channel", "print", "channel to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, strings.Split(*brokers, ","), *channel); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// serve works until ctx ends. Offsets are committed after the receipts are
// durable, so a crash repeats work and loses none: that is why receivers
// deduplicate by ce_id.
func serve(ctx context.Context, brokers []string, channel string) error {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.ConsumerGroup("worker-"+channel),
		kgo.ConsumeTopics("waterclock.due."+channel),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // or aborted due events are seen
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var receipts []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) { receipts = append(receipts, work(r, channel)) })
		if err := cl.ProduceSync(ctx, receipts...).FirstErr(); err != nil {
			return fmt.Errorf("write receipts: %w", err)
		}
		if err := cl.CommitUncommittedOffsets(ctx); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
}

// work does what is due and says what became of it. "retry" would bring the
// due event again, after the channel's profile; the waiting is the engine's.
func work(r *kgo.Record, channel string) *kgo.Record {
	fmt.Printf("%s attempt %s: %s\n", header(r, "ce_id"), header(r, "ce_wcattempt"), r.Value)
	attempt, _ := strconv.Atoi(header(r, "ce_wcattempt"))
	value, _ := json.Marshal(map[string]any{
		"due_id": header(r, "ce_id"), "channel": channel, "outcome": "delivered", "attempt": attempt,
	})
	return &kgo.Record{Topic: "waterclock.receipts", Key: []byte(header(r, "ce_subject")), Value: value}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
