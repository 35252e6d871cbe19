package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Option configures Run.
type Option func(*options)

// Bulkhead bounds how many events of one group are handled at a time, so that a slow receiver
// does not take all of the concurrency. Tenants take turns, and so do the groups of a tenant. A group
// belongs to the tenant of its first event.
type Bulkhead struct {
	// Group returns the group of an event, such as tenant and host. It must be fast. "" is a
	// group like any other.
	Group func(*DueEvent) string

	// InFlight bounds how many events of one group are handled at a time. 0 means 100.
	InFlight int

	// Waiting bounds how many more events of one group may wait. Events beyond it are answered
	// with Overflow. 0 means 200.
	Waiting int

	// Overflow returns the answer for an event that finds no room, such as Postpone. That is an
	// event beyond Waiting, or one behind an event of the same key whose handler has run for over
	// a second while the buffer of their partition is full. If Overflow is nil, there are no such
	// answers: the events of a full group wait. Once they fill the buffer of a partition, they
	// delay the others on it.
	Overflow func(*DueEvent) Result

	// Slow returns the answer for an event that makes room for those behind it, such as Postpone.
	// While the buffer of a partition is full, up to three quarters of those that wait are answered
	// so, also of those that wait for others of their key: the newest ones of the tenants that have
	// the most. A tenant none of whose events has waited for over 5 seconds keeps all of them, and
	// each other one its oldest. If Slow is nil, there are no such answers: the events of a tenant
	// that is not seen yet wait until those before them have been handled.
	Slow func(*DueEvent) Result
}

type options struct {
	channel        string
	brokers        []string
	kafka          []kgo.Opt
	prefix         string
	group          string
	topic          string
	receipts       string
	concurrency    int
	bulkhead       Bulkhead
	bufferRecords  int
	bufferBytes    int64
	fetchBytes     int32
	handlerTimeout time.Duration
	drainTimeout   time.Duration
	revokeTimeout  time.Duration
	commitInterval time.Duration
	memory         int
	byKey          bool
	onBatch        func(context.Context, []*DueEvent) any
	batchMax       int
	log            *slog.Logger
	metrics        Metrics
	tracer         Tracer
	now            func() time.Time       // replaced in tests
	byBroker       func(*kgo.Record) bool // whether the broker has set the record's timestamp
	askInterval    time.Duration          // interval of the requests for the ends of the logs (clock)
	receiptBackoff time.Duration          // wait before a failed receipt is written again
}

// Brokers sets the addresses to start from. The default is 127.0.0.1:9092.
func Brokers(addresses ...string) Option { return func(o *options) { o.brokers = addresses } }

// Kafka adds options to each of the three clients: the consumer, the producer, and the reader of
// receipts. Use it for TLS, SASL, dialers and logging. The options that the worker depends on
// override these: group, topics, isolation, acks and commits. A batch that takes more than 64 MiB
// after decompression stops its partition of a due topic with an error, and is stepped over on the
// receipts topic; kgo.MaxDecompressBatchBytes here sets another bound, as limits.batch_bytes does in the
// server.
func Kafka(opts ...kgo.Opt) Option {
	return func(o *options) { o.kafka = append(o.kafka, opts...) }
}

// Prefix sets the engine's topics.prefix. The default is "waterclock.".
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// Group sets the engine's group. The consumer group is <group>.<channel>. The default is
// "waterclock".
func Group(group string) Option { return func(o *options) { o.group = group } }

// Topic sets the engine's channels.<channel>.topic, if that is configured. The default is
// <prefix>due.<channel>. The high lane is always <topic>.high.
func Topic(topic string) Option { return func(o *options) { o.topic = topic } }

// Concurrency sets how many events are handled at a time, from 1 to 100,000. The default is 64.
func Concurrency(n int) Option { return func(o *options) { o.concurrency = n } }

// PerGroup sets a bulkhead per group. The default is none.
func PerGroup(b Bulkhead) Option { return func(o *options) { o.bulkhead = b } }

// Buffer bounds the events in memory, from the poll until the receipt is acknowledged. Each
// assigned partition has an equal share of both limits, at least 16 records and 64 KiB. A
// partition that is full is paused until half of its share is free. The last poll before that may
// exceed the records of a share twofold, and its bytes by those of one fetch (FetchBytes). The
// default is 10,000 records and 64 MiB.
func Buffer(records int, bytes int64) Option {
	return func(o *options) { o.bufferRecords, o.bufferBytes = records, bytes }
}

// FetchBytes bounds one fetch from one broker, compressed. In addition to Buffer, the client
// holds at most one fetch per broker in memory. The default is 8 MiB.
func FetchBytes(n int32) Option { return func(o *options) { o.fetchBytes = n } }

// HandlerTimeout ends the context of a handler. The answer is then a retry with code "timeout". A
// handler that ignores its context continues to count towards Concurrency. The default is 5
// minutes; keep it below the channel's receipt_timeout.
func HandlerTimeout(d time.Duration) Option { return func(o *options) { o.handlerTimeout = d } }

// DrainTimeout bounds the shutdown of Run after its context has ended. Handlers get three
// quarters of it to finish, then their contexts end. Receipts and commits get the rest. The
// default is 20 s.
func DrainTimeout(d time.Duration) Option { return func(o *options) { o.drainTimeout = d } }

// RevokeTimeout is how long a rebalance waits for handlers and receipts of a partition that moves
// to another worker. Then the contexts of the handlers end, and the other worker gets their
// events. A worker that ends waits for DrainTimeout instead. The default is 10 s; keep it below the
// session timeout (45 s). The group's rebalance timeout is 5 s longer than the longer one of the
// two: a worker that dies during a rebalance delays the others by that time.
func RevokeTimeout(d time.Duration) Option { return func(o *options) { o.revokeTimeout = d } }

// CommitInterval is the time between two commits of offsets. After a crash, the events since the
// last commit are read again; Memory skips those that have a receipt. The default is 1 s.
func CommitInterval(d time.Duration) Option { return func(o *options) { o.commitInterval = d } }

// Memory is the setting worker.memory: how many receipts are stored per partition, about 110 bytes
// each. They are read from the end of the receipts topic when a partition is assigned, so that a
// second worker skips what the first has answered. The default is 100,000; -1 turns it off.
func Memory(receipts int) Option { return func(o *options) { o.memory = receipts } }

// ByKey is for a channel with partitioning: by_key. The memory then holds Memory receipts for
// every partition of the receipts topic.
func ByKey() Option { return func(o *options) { o.byKey = true } }

// OnBatch sets a hook that is called with each batch of events right before their handlers, on
// one goroutine. BatchValue gives the handlers its result. So one query can read for many events
// what each handler would otherwise read itself. A batch consists of events that start now, not
// of a whole poll, so what the hook reads is fresh.
//
// Nothing starts while the hook runs, so it needs its own timeout. Its context ends with
// HandlerTimeout. After a panic, the events of the batch are retried with code "panic".
func OnBatch(hook func(ctx context.Context, events []*DueEvent) any) Option {
	return func(o *options) { o.onBatch = hook }
}

// BatchMax bounds the events of one call of OnBatch. The default is 500. It is never more than
// Concurrency.
func BatchMax(n int) Option { return func(o *options) { o.batchMax = n } }

// Logger sets the logger. The default is slog.Default(). Payloads and headers are never logged.
func Logger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithMetrics sets the receiver of measurements. The default is none; package workerprom is for
// Prometheus.
func WithMetrics(m Metrics) Option { return func(o *options) { o.metrics = m } }

// WithTracer sets the receiver of spans. The default is none.
func WithTracer(t Tracer) Option { return func(o *options) { o.tracer = t } }

// maxPoll bounds the records of one poll.
const maxPoll = 1000

// A partition's share of Buffer is at least this much.
const (
	minShareRecords = 16
	minShareBytes   = 64 << 10
)

func newOptions(channel string, opts []Option) (*options, error) {
	begin := time.Now()
	o := &options{
		channel: channel, brokers: []string{"127.0.0.1:9092"}, prefix: "waterclock.", group: "waterclock",
		concurrency: 64, bufferRecords: 10_000, bufferBytes: 64 << 20, fetchBytes: 8 << 20,
		handlerTimeout: 5 * time.Minute, drainTimeout: 20 * time.Second, revokeTimeout: 10 * time.Second,
		commitInterval: time.Second, memory: 100_000, batchMax: 500,
		log: slog.Default(), metrics: noMetrics{}, tracer: noTracer{},
		now:         steady(begin, func() time.Duration { return time.Since(begin) }),
		byBroker:    func(r *kgo.Record) bool { return r.Attrs.TimestampType() == 1 },
		askInterval: 15 * time.Second, receiptBackoff: time.Second,
	}
	for _, opt := range opts {
		opt(o)
	}
	if o.topic == "" {
		o.topic = o.prefix + "due." + channel
	}
	o.receipts = o.prefix + "receipts"
	if o.log != nil {
		o.log = o.log.With("channel", channel)
	}
	if o.bulkhead.InFlight == 0 {
		o.bulkhead.InFlight = 100
	}
	if o.bulkhead.Waiting == 0 {
		o.bulkhead.Waiting = 200
	}
	return o, o.validate()
}

var channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,48}$`)

// validate joins all mistakes into one error.
func (o *options) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("worker: "+format, args...))
		}
	}
	check(channelName.MatchString(o.channel) && !strings.HasSuffix(o.channel, highSuffix),
		"channel %q: want a-z, 0-9, '.', '_', '-', at most 49 of them, not ending in .high", o.channel)
	check(len(o.brokers) > 0, "Brokers: want at least one address")
	check(o.group != "", "Group: want the engine's group")
	check(o.concurrency >= 1 && o.concurrency <= 100_000, "Concurrency %d: want 1 to 100,000", o.concurrency)
	check(o.bulkhead.InFlight > 0 && o.bulkhead.Waiting > 0, "PerGroup: InFlight and Waiting must not be negative")
	check(o.bufferRecords > 0 && o.bufferBytes > 0, "Buffer %d, %d: want both above 0", o.bufferRecords, o.bufferBytes)
	check(o.fetchBytes >= 64<<10, "FetchBytes %d: want 64 KiB or more", o.fetchBytes)
	check(o.handlerTimeout > 0, "HandlerTimeout %v: want more than 0", o.handlerTimeout)
	check(o.drainTimeout > 0, "DrainTimeout %v: want more than 0", o.drainTimeout)
	check(o.revokeTimeout > 0, "RevokeTimeout %v: want more than 0", o.revokeTimeout)
	check(o.commitInterval > 0, "CommitInterval %v: want more than 0", o.commitInterval)
	check(o.memory > 0 && o.memory <= 10_000_000 || o.memory == -1,
		"Memory %d: want 1 to 10,000,000 receipts, or -1 for none", o.memory)
	check(o.batchMax > 0, "BatchMax %d: want more than 0", o.batchMax)
	check(o.log != nil && o.metrics != nil && o.tracer != nil, "Logger, WithMetrics, WithTracer: must not be nil")
	return errors.Join(errs...)
}
