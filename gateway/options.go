package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Brokers are where a caller with a Kafka client finds Kafka.
type Brokers struct {
	Addresses []string // host:port
	Auth      bool     // they need TLS or a log-in
}

// Options configure the gateway of one process.
type Options struct {
	Kafka      []kgo.Opt    // how to reach the brokers: seeds, TLS, SASL
	Brokers    Brokers      // what operators are told of them
	Names      topics.Names // topic names
	Partitions int32        // P of every topic

	// Owner answers for the partitions of this process; nil if it runs no engine.
	Owner peer.Owner
	// Address is the internal address that this process publishes in progress, so that it
	// does not ask itself; "" if it runs no engine.
	Address string
	// PeerSecret is shared by all instances. It signs their requests to each other and
	// seals list cursors. At least 16 bytes; empty means that this is the only instance.
	PeerSecret []byte
	// Peers is everything with which instances authenticate each other; it may be replaced
	// while in use. nil makes it from PeerSecret, without TLS.
	Peers *peer.Credentials

	// Console serves the web console beside the API. ConsolePrefix is the path that a proxy in
	// front takes away before it passes a request on; "" for none.
	Console       bool
	ConsolePrefix string

	// History answers what happened to a trigger. nil means that there is none, and the
	// events routes say so.
	History History
	// Letters lists dead letters. nil means that there is no list, and the routes of dead
	// letters say so.
	Letters Letters
	// Notifications lists what became of users' notifications. nil means that there is no
	// history, and the routes of notifications say so.
	Notifications Notifications
	// UserTriggers lists the triggers that the history knows of a user. nil means that there is
	// no history: an erasure of a user then asks the engine alone.
	UserTriggers UserTriggers
	// Preferences are what users want. nil means that there is no store, and the routes of
	// preferences say so.
	Preferences preferences.Store
	// Horizon is how long a finished trigger is kept. Without Letters, its dead letters are
	// found for that long. 0 means 24 h.
	Horizon time.Duration
	// Timetable is the tz database and calendars in force, for coming occurrences and
	// previews. nil shows only the next occurrence and refuses previews.
	Timetable func() *trigger.Timetable

	// Twilio takes what Twilio reports of messages. nil means that none of ours are sent by
	// it, and the route says so.
	Twilio *TwilioCallbacks

	// AckSecrets are what links to acknowledge are sealed with, as they are now. nil means
	// that there are no such links.
	AckSecrets func() []string

	// Limits are those of the engine's decoder, so that what it would refuse is refused
	// before it is written.
	Limits topics.Limits
	// Admit refuses a command for reasons that only settings know: a channel that the
	// tenant may not use, the origin of a callback. nil admits all.
	Admit func(tenant string, c *trigger.Command) *trigger.Error
	// TestEndpoint checks a callback URL of a tenant, and makes a request if send is set.
	// nil means that this server makes no calls.
	TestEndpoint func(ctx context.Context, tenant, url string, send bool) *egress.Report
	// KnownChannel reports whether settings name a channel; nil knows none.
	KnownChannel func(name string) bool
	// Awaits reports whether the engine waits for receipts on a channel, and the topic of
	// its due events; nil means never. If nobody reads that topic, answers to registers say
	// so.
	Awaits func(name string) (topic string, receipts bool)
	// Onlookers are consumer groups that read due topics and answer nothing.
	Onlookers []string
	// Channels are the channels that settings name and that always exist, with their
	// topics.
	Channels map[string]string
	// WorkerGroup names the consumer group of a channel's worker, of which lists of channels
	// say how much it has not read. nil means that they do not.
	WorkerGroup func(channel string) string
	// Settings are those of this process, with secrets masked, for operators; nil shows none.
	Settings func() []Setting
	// FixedChannels means that commands create no channels.
	FixedChannels bool
	// Rate is the number of commands per second of a tenant; 0 or nil means no limit.
	Rate func(tenant string) float64

	// Overloaded reports whether this process must refuse requests: for how long callers
	// should wait, and why. 0 means no; nil means never. Requests are then answered 429,
	// but not probes, metrics and /v1/partitions.
	Overloaded func() (wait time.Duration, why string)
	// NoRoom says why nothing can be written: what is left of the disk of the broker
	// in this process is for what it has already. Writes are then answered 503. ""
	// means that there is room; nil always has some.
	NoRoom func() string
	// Throttled says that Kafka slows this process down because of a quota, as part of a
	// sentence. Answers to writes that Kafka did not acknowledge in time name it as the
	// reason. "" means that it does not; nil means never.
	Throttled func() string
	// Notes are sentences for /readyz about what is amiss while the process is
	// ready all the same; nil: none.
	Notes func() []string

	// Auth identifies callers. nil means tenant default, and Serve then refuses to listen
	// beyond loopback.
	Auth auth.Authenticator
	// TLS serves https. It is needed beyond loopback, unless TLSElsewhere says that a proxy
	// in front ends TLS.
	TLS          *tls.Config
	TLSElsewhere bool
	// OwnHost reports whether callers may use a name for us, beside localhost and
	// addresses; nil knows none. Other names are refused, so that no web page can reach us
	// by a name of its own (DNS rebinding).
	OwnHost func(name string) bool

	Metrics  http.Handler // of /metrics; nil serves none
	Ready    func() error // of /readyz: nil when ready; a nil func is always ready
	Schemas  fs.FS        // of /schemas/{name}; nil serves none
	AsyncAPI []byte       // of /asyncapi.json; nil serves none

	// Listener is called for requests; nil means none. Tracing records them; nil does not.
	// LogRequests logs a line for each.
	Listener    Listener
	Tracing     *tracing.Tracer
	LogRequests bool
	// AuditRate is how many refused attempts per second are recorded, in bursts of ten
	// seconds' worth. 0 means 10.
	AuditRate float64
	// AuditWithin is how long the answer to an act waits for its record on topic audit. 0 means
	// 2 s.
	AuditWithin time.Duration
	// AuditRegisters puts registers on topic audit, too. No answer waits for those.
	AuditRegisters bool
	// Tenants are names of tenants beside those of the API keys.
	Tenants []string

	// OwnCalendars is how many calendars of its own a tenant may have. CalendarInterval is
	// the least time between two changes of them. 0 means 20, and 5 s.
	OwnCalendars     int
	CalendarInterval time.Duration

	// AnswerWithin is how long a write waits for the owner's decision before it
	// answers 202. 0 means 2 s.
	AnswerWithin time.Duration
	// ProduceWithin is how long a write waits for Kafka before it answers 503.
	// 0 means 5 s.
	ProduceWithin time.Duration
	// ReadWithin bounds a read. 0 means 5 s.
	ReadWithin time.Duration
	// ListBudget bounds the triggers that one visit of a partition reads; a page needs one
	// visit, seldom two. A page that meets the bound is short and has a cursor. 0 means
	// 20,000.
	ListBudget int
	// BatchAtOnce bounds the lines of one batch that wait for their decision. With a turn
	// every 20 ms, one turn decides that many. 0 means 4,096.
	BatchAtOnce int
	// CommandsBeside bounds the commands of one tenant, lines of batches too, that wait so while
	// other tenants write: they are decided before what others write next. CommandsAlone bounds
	// them while none does, with Auth. 0 means 512, and 4,096.
	CommandsBeside, CommandsAlone int
	// Batches bounds the batches under way. 0 means 8. With Auth a tenant may have
	// as many as it leaves for others: half.
	Batches int
	// Followers bounds the open event streams, like Batches. 0 means 256.
	Followers int

	// Reads bounds the costly reads under way (lists, forecasts, previews), like Batches. 0
	// means 64.
	Reads int
	// ReadRate is how many triggers and occurrences per second the costly reads of a tenant
	// may visit, in bursts of ten seconds' worth; 0 or nil means no limit.
	ReadRate func(tenant string) float64
	// ReadBudget is how many of them one read may visit, and ReadTime how long it may
	// compute. Beyond that it is refused with 413. 0 means 1,000,000 and 2 s.
	ReadBudget int64
	ReadTime   time.Duration
	// PageBytes bounds the stored bytes of the triggers of one page of a list, and
	// PagesInFlight those of all pages held at once. A page that meets a bound is short and
	// has a cursor. If nothing is left, a list is refused with 503. 0 means 4 MiB and 32
	// MiB.
	PageBytes     int64
	PagesInFlight int64
	// BodiesInFlight bounds the bytes of single requests' bodies that are in memory, from their
	// arrival until the answer. A tenant has at most as much as it leaves free. A body beyond it
	// is refused with 429. 0 means 256 MiB.
	BodiesInFlight int64
	// LinesInFlight bounds the bytes of lines of all batches that have no answer yet. A batch
	// beyond it is read no further until others have theirs. 0 means 128 MiB.
	LinesInFlight int64
	// StreamBytes bounds what one fetch of an event stream returns, before decompression. 0 means 1
	// MiB.
	StreamBytes int32
	// CommandBytes bounds the bytes of records that Kafka has not acknowledged. A command
	// beyond it is refused with 503. 0 means 256 MiB.
	CommandBytes int
	// BodyRate is the least speed of a body in bytes per second, after its first seconds. 0
	// means 1 KiB.
	BodyRate int64

	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger
}

// History is what the gateway needs of the history.
type History interface {
	// Events lists what happened to one trigger, in order, after a cursor: at most limit events, and no
	// more once they have most bytes. more: there are further ones.
	Events(ctx context.Context, tenant string, key trigger.Key, after EventCursor, limit int, most int64) (
		list []topics.Event, more bool, err error)
	// LastEvents lists the newest events of one trigger, at most limit of them, in order and without
	// their payloads: who explains a trigger reads many and needs none.
	LastEvents(ctx context.Context, tenant string, key trigger.Key, limit int) ([]topics.Event, error)
	// Next is the offset of the first event of a partition of topic events that the history
	// does not have yet.
	Next(ctx context.Context, partition int32) (int64, error)
}

// EventCursor is a position among one trigger's events. The zero value is before the first.
type EventCursor struct{ EventUS, Seq int64 }

func (o Options) withDefaults() Options {
	def(&o.AnswerWithin, 2*time.Second)
	def(&o.OwnCalendars, 20)
	def(&o.CalendarInterval, 5*time.Second)
	def(&o.ProduceWithin, 5*time.Second)
	def(&o.ReadWithin, 5*time.Second)
	def(&o.ListBudget, 20_000)
	def(&o.BatchAtOnce, 4096)
	def(&o.CommandsBeside, 512)
	def(&o.CommandsAlone, 4096)
	def(&o.Batches, 8)
	def(&o.Followers, 256)
	def(&o.Reads, 64)
	def(&o.ReadBudget, 1_000_000)
	def(&o.ReadTime, 2*time.Second)
	def(&o.PageBytes, 4<<20)
	def(&o.PagesInFlight, 32<<20)
	def(&o.BodiesInFlight, 256<<20)
	def(&o.LinesInFlight, 128<<20)
	def(&o.CommandBytes, 256<<20)
	def(&o.StreamBytes, 1<<20)
	def(&o.BodyRate, 1<<10)
	def(&o.Limits.Payload, 4<<10)
	def(&o.Horizon, 24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rate == nil {
		o.Rate = func(string) float64 { return 0 }
	}
	if o.ReadRate == nil {
		o.ReadRate = func(string) float64 { return 0 }
	}
	if o.KnownChannel == nil {
		o.KnownChannel = func(string) bool { return false }
	}
	if o.Awaits == nil {
		o.Awaits = func(string) (string, bool) { return "", false }
	}
	if o.Admit == nil {
		o.Admit = func(string, *trigger.Command) *trigger.Error { return nil }
	}
	if o.Listener == nil {
		o.Listener = NoListener{}
	}
	def(&o.AuditRate, 10)
	def(&o.AuditWithin, 2*time.Second)
	if o.NoRoom == nil {
		o.NoRoom = func() string { return "" }
	}
	if o.Throttled == nil {
		o.Throttled = func() string { return "" }
	}
	if o.Overloaded == nil {
		o.Overloaded = func() (time.Duration, string) { return 0, "" }
	}
	if o.Notes == nil {
		o.Notes = func() []string { return nil }
	}
	if o.Peers == nil && len(o.PeerSecret) >= peer.MinSecret {
		// Only a short secret can fail.
		o.Peers, _ = peer.NewCredentials(peer.Trust{Secrets: [][]byte{o.PeerSecret}, Plain: true})
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	return o
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate joins every problem into one error.
func (o Options) Validate() error {
	var errs []error
	if o.Partitions < 1 {
		errs = append(errs, fmt.Errorf("topics.partitions: %d, must be at least 1", o.Partitions))
	}
	if n := len(o.PeerSecret); n > 0 && n < peer.MinSecret {
		errs = append(errs, fmt.Errorf("internal.secret: %d bytes, must be at least %d", n, peer.MinSecret))
	}
	if o.Owner == nil && o.Peers == nil && len(o.PeerSecret) == 0 {
		errs = append(errs,
			errors.New("internal.secret: required if this process runs no engine and asks other instances"))
	}
	if o.Limits.Payload > topics.MaxPayload {
		errs = append(errs, fmt.Errorf("limits.payload: %d, must be at most %d", o.Limits.Payload, topics.MaxPayload))
	}
	for name, d := range map[string]time.Duration{
		"AnswerWithin": o.AnswerWithin, "ProduceWithin": o.ProduceWithin,
		"ReadWithin": o.ReadWithin, "ReadTime": o.ReadTime, "AuditWithin": o.AuditWithin,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: %s, must not be negative", name, d))
		}
	}
	for name, n := range map[string]int{
		"ListBudget": o.ListBudget, "BatchAtOnce": o.BatchAtOnce, "CommandsBeside": o.CommandsBeside,
		"CommandsAlone": o.CommandsAlone,
		"Batches":       o.Batches, "Followers": o.Followers, "Reads": o.Reads, "ReadBudget": int(o.ReadBudget),
		"PageBytes": int(o.PageBytes), "PagesInFlight": int(o.PagesInFlight), "BodyRate": int(o.BodyRate),
		"OwnCalendars": o.OwnCalendars, "BodiesInFlight": int(o.BodiesInFlight),
		"LinesInFlight": int(o.LinesInFlight), "CommandBytes": o.CommandBytes,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s: %d, must not be negative", name, n))
		}
	}
	return errors.Join(errs...)
}
