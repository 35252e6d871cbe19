package sinks

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Options configure a projector.
type Options struct {
	// Kafka is the connection to the brokers: seeds, TLS, SASL, logger. The projector sets the
	// group, the topic and the isolation level itself.
	Kafka []kgo.Opt

	// Topic is the event log. Default waterclock.events.
	Topic string

	// Group is the consumer group. Default waterclock-history. A new group projects the whole log
	// from the beginning.
	Group string

	// MaxRecords bounds a batch by count. Default 2,000; at most 100,000.
	MaxRecords int

	// MaxBytes bounds a batch by the size of its values. Default 4 MiB. A batch has at least one
	// record.
	MaxBytes int

	// MaxBuffered bounds what is fetched ahead, in bytes before decompression, per broker.
	// Default 8 MiB. Nothing else waits in memory while the sink is unavailable.
	MaxBuffered int32

	// Gather is how long to collect events after a batch of less than half of MaxRecords, because
	// a batch for each of the engine's turns costs more than its events. The first event after a
	// pause does not wait. Default 10 ms; negative means none.
	Gather time.Duration

	// RetryMin and RetryMax bound the wait before a failed batch is retried. It doubles from one
	// to the other. Default 200 ms and 10 s.
	RetryMin, RetryMax time.Duration

	// Attempt bounds one attempt to apply a batch. Default 30 s.
	Attempt time.Duration

	// Logger logs poison and retries. Default: none.
	Logger *slog.Logger

	// LagEvery is the interval at which the lag is measured, also while the sink is unavailable.
	// Default 5 s.
	LagEvery time.Duration

	// Hooks observe the projector. All may be nil.
	Hooks Hooks
}

// Hooks let metrics and tests observe a projector. They must not block. Lag is called from a
// goroutine of its own, and so is Stopped when a partition is revoked.
type Hooks struct {
	// Applied is called when a batch is durable and its offsets are committed.
	Applied func(events int, took time.Duration)
	// Lag is called with the number of records of a partition that their writers have committed
	// and that are not applied yet (history_lag_records). It is 0 after a partition is revoked.
	Lag func(partition int32, records int64)
	// Skipped is called when a record is not an event.
	Skipped func(partition int32, offset int64, err error)
	// Retry is called when the sink did not accept a batch, for the n-th time.
	Retry func(n int, err error)
	// Lost is called when the log has dropped that many records before they were projected.
	Lost func(partition int32, records int64)
	// Stopped is called when the sink refuses a partition's rows (ErrRefused), so the partition
	// is no longer projected. It is called at every try, and with nil once the partition
	// continues, here or elsewhere.
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
