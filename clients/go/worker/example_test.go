package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workerprom"
)

// This is the smallest worker. On SIGTERM it finishes its running work and ends.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := worker.Run(ctx, "print", func(_ context.Context, e *worker.DueEvent) (worker.Result, error) {
		fmt.Printf("%s attempt %d: %s\n", e.ID, e.Attempt, e.Payload)
		return worker.Delivered(), nil
	}, worker.Brokers("127.0.0.1:9092"))
	if err != nil {
		log.Fatal(err)
	}
}

// A handler returns the outcome of an event. An error becomes a retry by the profile of the
// channel.
func ExampleHandler() {
	var handle worker.Handler = func(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
		job := bytes.NewReader(e.Payload)
		req, err := http.NewRequestWithContext(ctx, "POST", "http://printer.internal/jobs", job)
		if err != nil {
			return worker.Fail("bad_request", err.Error()), nil
		}
		req.Header.Set("Idempotency-Key", e.ID)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return worker.Retry(0).WithCode("unreachable"), nil
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode < 300:
			return worker.Delivered(), nil
		case resp.StatusCode == http.StatusServiceUnavailable:
			return worker.Postpone(time.Minute, "printer_away"), nil
		case resp.StatusCode < 500:
			return worker.Fail("refused", resp.Status), nil
		}
		return worker.Result{}, errors.New(resp.Status) // a retry, code "error"
	}
	_ = worker.Run(context.Background(), "print", handle)
}

// One query serves all events that start now, instead of one query each.
func ExampleOnBatch() {
	type numbers map[string]string
	load := func(_ context.Context, events []*worker.DueEvent) any {
		users := make([]string, 0, len(events))
		for _, e := range events {
			users = append(users, e.User)
		}
		_ = users // SELECT id, phone FROM users WHERE id = ANY($1)
		return numbers{"u_81": "+15550100"}
	}
	handle := func(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
		all, ok := worker.BatchValue[numbers](ctx)
		if !ok || all[e.User] == "" {
			return worker.Suppress("no_number"), nil
		}
		return worker.Accepted(), nil
	}
	_ = worker.Run(context.Background(), "sms", handle, worker.OnBatch(load))
}

// A receiver that hangs blocks 20 handlers, not all of them.
func ExamplePerGroup() {
	handle := func(context.Context, *worker.DueEvent) (worker.Result, error) { return worker.Delivered(), nil }
	_ = worker.Run(context.Background(), "print", handle, worker.Concurrency(200), worker.PerGroup(worker.Bulkhead{
		Group:    func(e *worker.DueEvent) string { return e.Tenant },
		InFlight: 20,
		Waiting:  40,
		Overflow: func(*worker.DueEvent) worker.Result { return worker.Postpone(10*time.Second, "bulkhead") },
	}), worker.WithMetrics(workerprom.New(prometheus.DefaultRegisterer, "print")))
}
