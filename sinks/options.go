package sinks

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options are the projector's.
type Options struct {
	// Kafka says how to reach the brokers: seeds, TLS, SASL, logger. The group,
	// the topic and the isolation level are the projector's own.
	Kafka []kgo.Opt

	// Topic is the event log. Default waterclock.events.
	Topic string

	// Group is the consumer group. Default waterclock-history. Another group
	// projects the whole log again.
	Group string

	// MaxRecords bounds a batch by count. Default 2,000; at most 100,000.
	MaxRecords int

	// MaxBytes bounds a batch by the size of its values. Default 4 MiB; a batch
	// always has one record.
	MaxBytes int

	// MaxBuffered bounds what is fetched ahead, in bytes before decompression,
	// per broker. Default 8 MiB. It is all that waits in memory while the sink
	// is away.
	MaxBuffered int32

	// Gather is how long events are let come together after a batch that was
	// less than half of MaxRecords: a batch for each of the engine's turns costs
	// more than its events. The first after a silence waits for nothing. Default
	// 10 ms; negative means none.
	Gather time.Duration

	// RetryMin and RetryMax bound the wait before a batch that did not go through
	// is applied again; it doubles from one to the other. Default 200 ms and 10 s.
	RetryMin, RetryMax time.Duration

	// Attempt bounds one try to apply a batch. Default 30 s.
	Attempt time.Duration

	// Logger gets poison and retries. Default: none.
	Logger *slog.Logger

	// LagEvery is how often the lag is measured, also while the sink is away.
	// Default 5 s.
	LagEvery time.Duration

	// Hooks are told what happens. All may be nil.
	Hooks Hooks
}

// Hooks let metrics and tests watch a projector. They must not block; Lag is
// called from a goroutine of its own, and so is Stopped when a partition goes.
type Hooks struct {
	// Applied: a batch is durable and its offsets are committed.
	Applied func(events int, took time.Duration)
	// Lag is how many records of a partition are committed by their writers and
	// not yet applied (history_lag_records). 0 after a partition is given away.
	Lag func(partition int32, records int64)
	// Skipped: a record was no event.
	Skipped func(partition int32, offset int64, err error)
	// Retry: the sink did not take a batch, for the n-th time.
	Retry func(n int, err error)
	// Lost: the log has dropped that many records before they were projected.
	Lost func(partition int32, records int64)
	// Stopped: the sink refuses a partition's rows (ErrRefused), and nothing more
	// of it is projected. Told at every try, and with nil once it goes on, here
	// or elsewhere.
	Stopped func(partition int32, err error)
}

func (o Options) withDefaults() Options {
	setDefault(&o.Topic, "waterclock.events")
	setDefault(&o.Group, "waterclock-history")
	setDefault(&o.MaxRecords, 2000)
	setDefault(&o.MaxBytes, 4<<20)
	setDefault(&o.MaxBuffered, 8<<20)
	setDefault(&o.Gather, 10*time.Millisecond)
	setDefault(&o.RetryMin, 200*time.Millisecond)
	setDefault(&o.RetryMax, 10*time.Second)
	setDefault(&o.Attempt, 30*time.Second)
	setDefault(&o.LagEvery, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Hooks.Applied == nil {
		o.Hooks.Applied = func(int, time.Duration) {}
	}
	if o.Hooks.Lag == nil {
		o.Hooks.Lag = func(int32, int64) {}
	}
	if o.Hooks.Skipped == nil {
		o.Hooks.Skipped = func(int32, int64, error) {}
	}
	if o.Hooks.Retry == nil {
		o.Hooks.Retry = func(int, error) {}
	}
	if o.Hooks.Lost == nil {
		o.Hooks.Lost = func(int32, int64) {}
	}
	if o.Hooks.Stopped == nil {
		o.Hooks.Stopped = func(int32, error) {}
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Validate joins every problem into one error.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.MaxRecords < 1 || o.MaxRecords > 100_000 {
		bad("MaxRecords: %d is not within 1 and 100,000", o.MaxRecords)
	}
	if o.MaxBytes < 1 {
		bad("MaxBytes: %d is not positive", o.MaxBytes)
	}
	if o.MaxBuffered < 1 {
		bad("MaxBuffered: %d is not positive", o.MaxBuffered)
	}
	if o.RetryMin < 0 || o.RetryMax < o.RetryMin {
		bad("RetryMin, RetryMax: %s to %s is not a range", o.RetryMin, o.RetryMax)
	}
	if o.Attempt < 0 || o.LagEvery < 0 {
		bad("Attempt, LagEvery: %s, %s: must not be negative", o.Attempt, o.LagEvery)
	}
	return errors.Join(errs...)
}
