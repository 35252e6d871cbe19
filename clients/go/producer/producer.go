// Package producer sends Waterclock's commands to Kafka. It has the same calls as package
// waterclock, which uses HTTP. It is for callers that have brokers and need no answer but the
// append.
//
//	p, err := producer.New(producer.Brokers("127.0.0.1:9092"))
//	defer p.Close()
//	err = p.Schedule(ctx, "hold-8c4", waterclock.Register{When: waterclock.In(7 * time.Minute)})
//
// # Promises
//
//   - A call that returns nil is durable: all in-sync replicas have the command. The engine decides
//     later. A refusal becomes an event and a record on topic rejected, never an error here.
//   - Commands for one trigger are decided in the order in which they were sent.
//   - The producer is idempotent: a retry of the client library does not append twice. A call that
//     failed may have been appended anyway, and its error says so (MaybeApplied). It is safe to repeat
//     a register with an IdempotencyKey, and cancel, pause, resume, rezone, ack and erase: the second one
//     changes nothing.
//   - Keys are partitioned with murmur2, as Kafka's own clients do.
package producer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// Producer sends commands. It is safe for concurrent use.
type Producer struct {
	opts   []kgo.Opt // of each client
	tenant string
	topic  string

	mu       sync.Mutex
	cl       *kgo.Client
	renewed  time.Time
	checking bool // whether cl can still produce
	closed   bool
}

type config struct {
	brokers []string
	kafka   []kgo.Opt
	tenant  string
	prefix  string
	timeout time.Duration
	buffer  int
}

// Option configures a Producer.
type Option func(*config)

// Brokers sets the addresses to start from. The default is 127.0.0.1:9092.
func Brokers(addresses ...string) Option { return func(c *config) { c.brokers = addresses } }

// Kafka adds franz-go options: TLS, SASL, dialers.
func Kafka(opts ...kgo.Opt) Option { return func(c *config) { c.kafka = append(c.kafka, opts...) } }

// Tenant sets whose triggers the commands are for. The default is "default".
func Tenant(name string) Option { return func(c *config) { c.tenant = name } }

// Prefix sets the engine's topics.prefix. The default is "waterclock.".
func Prefix(p string) Option { return func(c *config) { c.prefix = p } }

// Timeout bounds how long the producer tries to send a command. The default is 30 s; the minimum
// is 1 s.
func Timeout(d time.Duration) Option { return func(c *config) { c.timeout = max(d, time.Second) } }

// Buffer bounds how many commands may wait. When it is full, calls block. The default is 10,000.
func Buffer(commands int) Option { return func(c *config) { c.buffer = commands } }

// New creates a Producer. It connects on first use.
func New(opts ...Option) (*Producer, error) {
	c := config{
		brokers: []string{"127.0.0.1:9092"}, prefix: "waterclock.", timeout: 30 * time.Second, buffer: 10_000,
	}
	for _, opt := range opts {
		opt(&c)
	}
	all := append([]kgo.Opt{
		kgo.SeedBrokers(c.brokers...),
		kgo.ClientID("waterclock-producer"),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // murmur2, like Kafka's Java client
		kgo.RecordDeliveryTimeout(c.timeout),
		// Without this, a record in flight would wait for its broker for ever, despite the
		// timeout and the context.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.MaxBufferedRecords(c.buffer),
	}, c.kafka...)
	cl, err := kgo.NewClient(all...)
	if err != nil {
		return nil, err
	}
	return &Producer{opts: all, cl: cl, tenant: c.tenant, topic: c.prefix + "commands"}, nil
}

// Close waits for the commands in flight, for at most Timeout.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	cl := p.cl
	p.mu.Unlock()
	_ = cl.Flush(context.Background())
	cl.Close()
}

// record returns the Kafka record of a command.
func (p *Producer) record(cmd *waterclock.Command) (*kgo.Record, error) {
	key, value, err := cmd.Record(p.tenant)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{Topic: p.topic, Key: key, Value: value}
	for _, h := range cmd.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: []byte(h.Value)})
	}
	return r, nil
}

// Send sends commands and waits until the brokers have all of them. After an error, some may have
// been appended.
func (p *Producer) Send(ctx context.Context, commands ...*waterclock.Command) error {
	records := make([]*kgo.Record, 0, len(commands))
	for _, cmd := range commands {
		r, err := p.record(cmd)
		if err != nil {
			return err
		}
		records = append(records, r)
	}
	cl := p.client()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		p.check(cl, err)
		return failed(err)
	}
	return nil
}

// SendAsync sends a command. It calls done once the brokers have the command, or with the error.
// It blocks only while Buffer is full. done must not block.
func (p *Producer) SendAsync(ctx context.Context, cmd *waterclock.Command, done func(error)) {
	r, err := p.record(cmd)
	if err != nil {
		done(err)
		return
	}
	cl := p.client()
	cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
		if err != nil {
			p.check(cl, err)
			err = failed(err)
		}
		done(err)
	})
}

// failed converts an error of the client library. A broker that refused a record did not append
// it. After any other error the record may have been appended.
func failed(err error) error {
	e := &waterclock.Error{
		Type: waterclock.Unavailable, Detail: "Kafka: " + err.Error(), Attempts: 1, MaybeApplied: true,
	}
	if refusal, ok := refusals.of(err); ok {
		e.Type, e.Code, e.MaybeApplied = refusal.kind, refusal.code, false
	}
	return e.WithCause(err)
}

// Schedule creates or replaces a trigger.
func (p *Producer) Schedule(ctx context.Context, id string, r waterclock.Register, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.ScheduleCommand(id, r, opts...))
}

// Cancel ends a trigger.
func (p *Producer) Cancel(ctx context.Context, id string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.CancelCommand(id, opts...))
}

// Reschedule replaces all of when the trigger fires, and nothing else.
func (p *Producer) Reschedule(ctx context.Context, id string, w waterclock.When, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.RescheduleCommand(id, w, opts...))
}

// Snooze moves a one-shot to a later time, and adds an occurrence to a series.
func (p *Producer) Snooze(ctx context.Context, id string, s waterclock.Snooze, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.SnoozeCommand(id, s, opts...))
}

// Skip leaves out one occurrence of a series. "" means the next one.
func (p *Producer) Skip(ctx context.Context, id, occurrence string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.SkipCommand(id, occurrence, opts...))
}

// Pause stops occurrences until Resume. The note may be empty.
func (p *Producer) Pause(ctx context.Context, id, note string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.PauseCommand(id, note, opts...))
}

// Resume ends a pause. The misfire policy decides about the missed occurrences.
func (p *Producer) Resume(ctx context.Context, id, note string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.ResumeCommand(id, note, opts...))
}

// Run fires the trigger once now, in addition to its schedule.
func (p *Producer) Run(ctx context.Context, id string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.RunCommand(id, opts...))
}

// Rezone moves a trigger with wall times to another zone.
func (p *Producer) Rezone(ctx context.Context, id, zone string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.RezoneCommand(id, zone, opts...))
}

// Ack says that the user reacted to an occurrence. "" means whatever is in flight.
func (p *Producer) Ack(ctx context.Context, id, occurrence string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.AckCommand(id, occurrence, opts...))
}

// Erase ends a trigger and forgets its content.
func (p *Producer) Erase(ctx context.Context, id string, opts ...waterclock.Option) error {
	return p.Send(ctx, waterclock.EraseCommand(id, opts...))
}

// refusal maps an error code of Kafka to an error type.
type refusal struct {
	err  error
	kind waterclock.ErrorType
	code string
}

type refusalTable []refusal

func (t refusalTable) of(err error) (refusal, bool) {
	for _, r := range t {
		if errors.Is(err, r.err) {
			return r, true
		}
	}
	return refusal{}, false
}
