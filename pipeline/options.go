package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Options configure the engine of one process.
type Options struct {
	Kafka      []kgo.Opt    // how to reach the brokers: seeds, TLS, SASL
	Names      topics.Names // topic names
	Partitions int32        // P of every topic
	Group      string       // consumer group and prefix of transactional ids; "waterclock"
	InstanceID string       // static membership; "" is dynamic
	Cluster    string       // ce_source is /waterclock/<cluster>; "default"
	Address    string       // where gateways reach this process's owners; published in progress

	Dir     string            // stores live in <Dir>/<partition>
	Cache   *statestore.Cache // shared by all partitions; nil makes one
	StoreFS vfs.FS            // nil is the disk; tests bring a memory that can crash

	Limits topics.Limits
	// BatchBytes is what one batch of records may take in memory once it is
	// decompressed; setting limits.batch_bytes. One that takes more is passed
	// over and refused as a whole. 0 means 64 MiB.
	BatchBytes int
	Machine    trigger.Machine // settings of every decision; its DuePartition is set per partition
	Channels   Channels

	ManageTopics bool  // create missing due topics
	Replication  int16 // of topics it creates; -1 the broker's default

	// Quota is what a tenant may do; nil bounds nobody.
	Quota func(tenant string) Quota

	EventsPayload bool // payload in registered and replaced events

	// MaxTurnRecords bounds the commands read and the timers fired in one
	// turn. 0 means 5,000.
	MaxTurnRecords int
	// MinInterval is the least time from the start of one turn to the next.
	// 0 means adaptive; negative means none.
	MinInterval time.Duration
	// BarrierMaxHold is how long a foreign producer's open transaction on
	// commands may hold firing back, once per stable offset. 0 means 10 s.
	BarrierMaxHold time.Duration
	// MaxClockOffset is how far this node's clock and a broker's may be apart.
	// Beyond it the partition holds, until they are not, or a second broker
	// agrees with the first. 0 means 30 s.
	MaxClockOffset time.Duration
	// MaxPending bounds the triggers one partition will hold; registers beyond
	// it are refused with CodeOverloaded. 0 means 5,000,000; -1 no bound.
	MaxPending int64

	// MaxTenantChannels bounds the channels that the commands of one tenant create,
	// as one process counts them. 0 means 20.
	MaxTenantChannels int
	// MaxDone bounds the done records of one partition, oldest out first;
	// dedup.max_per_partition. 0 means 5,000,000.
	MaxDone int64
	// ForwardMemory bounds, in bytes, what one partition keeps in memory of the
	// records that it forwards to their right partitions; what is beyond is read
	// from Kafka again. It is divided between the routes, each of which has at
	// least 256 KiB and may always hold one record. 0 means 16 MiB.
	ForwardMemory int
	// OutcomeMemory bounds, in bytes, the outcomes that one partition remembers
	// for gateways. 0 means 8 MiB.
	OutcomeMemory int
	// MemTableBytes is one memtable of a store. 0 means 16 MiB.
	MemTableBytes int
	// FetchBytes is the most that one fetch of a partition's client brings, as it
	// comes from the broker; one batch it always may. 0 means 4 MiB.
	FetchBytes int
	// DiskReserve is how many bytes must be free where the stores are. Below it
	// the disk counts as full: this process gives its partitions to others, and
	// takes them again above twice as many. 0: only a write that fails counts.
	DiskReserve int64
	// Pressed says that memory is short: then partitions read less at a time,
	// and standbys rest. nil: never.
	Pressed func() bool
	// CatchUpRate is how many missed occurrences of triggers under fire_all
	// fire a second, over all partitions: each keeps to its P-th share. 0 means
	// 10,000; negative no bound.
	CatchUpRate float64
	// MaxAway is how old a local store may be before it is rebuilt rather than
	// resumed: half of delete.retention.ms of topic state. 0 means 12 h.
	MaxAway time.Duration
	// AcceptGaps lets partitions resume from these offsets although commands
	// before them were lost to retention or compaction.
	AcceptGaps []Gap
	// TakeOverGroup is a group whose partitions this one takes for good: its
	// owners are fenced.
	TakeOverGroup string
	// OpenAtOnce bounds the partitions opened side by side. 0 means 4.
	OpenAtOnce int
	// Standby is how many copies of each partition other members keep warm, so
	// that one of them takes over without a restore. 0: none.
	Standby int
	// ServerAssigns lets the brokers decide who owns what (KIP-848) rather than
	// the members. Membership is then never static.
	ServerAssigns bool
	// HangAfter is how long a partition may stay at one step that waits for
	// nothing but this machine before the process gives up. 0 means 1 min.
	HangAfter time.Duration
	// SessionTimeout is how long the group waits for a silent member. 0 means 6 s.
	SessionTimeout time.Duration
	// GroupHeartbeat is how often a member asks whether the group rebalances:
	// most of a clean hand-over. 0 means 100 ms.
	GroupHeartbeat time.Duration
	// TransactionTimeout is how long the broker waits for a silent owner. 0 means 10 s.
	TransactionTimeout time.Duration
	// Heartbeat is how often an idle partition commits, so that its
	// transactional id does not expire. 0 means 1 h.
	Heartbeat time.Duration
	// FetchMaxWait is how long a broker holds an empty fetch, and so how long a
	// partition may have to wait that joins while kgo has a fetch under way. 0
	// means 500 ms, as in Kafka.
	FetchMaxWait time.Duration

	Now      func() time.Time // nil means time.Now; for clock-fault tests
	Logger   *slog.Logger
	Listener Listener
	Tracing  *tracing.Tracer // spans of sampled commands and what fires of them; nil is off

	hooks        hooks // they do nothing, but in tests of the tests
	restoreChunk int   // 0: as it should be
	wheelEntries int
	pacedEntries int
	maxUnknown   int
	damaged      time.Duration // 0: damagedFor
}

// Channels is what the engine knows of channel settings.
type Channels interface {
	// Settings of a channel by name, also of one never configured.
	Settings(name string) ChannelSettings
	// Known says whether the name is configured.
	Known(name string) bool
	// Configured are the names Known is true of.
	Configured() []string
	// AutoCreate says whether channels that do not exist are created on first use.
	AutoCreate() bool
}

// ChannelSettings are the settings of one channel.
type ChannelSettings struct {
	trigger.Channel
	ByKey    bool // partitioning: by_key
	HighLane bool // priority high goes to <topic>.high
}

func (o Options) withDefaults() Options {
	def(&o.Group, "waterclock")
	def(&o.Cluster, "default")
	def(&o.MaxTurnRecords, 5000)
	def(&o.BarrierMaxHold, 10*time.Second)
	def(&o.MaxClockOffset, 30*time.Second)
	def(&o.MaxPending, 5_000_000)
	def(&o.MaxTenantChannels, 20)
	def(&o.MaxDone, 5_000_000)
	def(&o.ForwardMemory, 16<<20)
	def(&o.OutcomeMemory, 8<<20)
	def(&o.FetchBytes, 4<<20)
	def(&o.CatchUpRate, 10_000)
	def(&o.MaxAway, 12*time.Hour)
	def(&o.OpenAtOnce, 4)
	def(&o.HangAfter, time.Minute)
	def(&o.SessionTimeout, 6*time.Second)
	def(&o.GroupHeartbeat, 100*time.Millisecond)
	def(&o.TransactionTimeout, 10*time.Second)
	def(&o.Heartbeat, time.Hour)
	def(&o.FetchMaxWait, 500*time.Millisecond)
	def(&o.wheelEntries, wheelEntries)
	def(&o.pacedEntries, pacedEntries)
	def(&o.maxUnknown, maxUnknown)
	if o.ServerAssigns {
		o.InstanceID = "" // leaving would reserve our partitions for us until the session time-out
	}
	if o.Pressed == nil {
		o.Pressed = func() bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Listener == nil {
		o.Listener = NoListener{}
	}
	def(&o.Machine.Horizon, 24*time.Hour)
	def(&o.Machine.MisfireAfter, time.Minute)
	def(&o.Machine.MaxCatchUp, 1000)
	return o
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// catchUpShare is what one partition has of CatchUpRate.
func (o *Options) catchUpShare() float64 { return o.CatchUpRate / float64(o.Partitions) }

// turnFloor is the least interval of adaptive pacing. One partition's turns
// follow each other at once; the more partitions share brokers, the more each
// leaves between its own.
func (o *Options) turnFloor() time.Duration {
	return time.Duration(o.Partitions/8) * time.Millisecond
}

// Validate joins every problem into one error.
func (o Options) Validate() error {
	var errs []error
	if o.Partitions < 1 {
		errs = append(errs, fmt.Errorf("partitions: %d, must be at least 1", o.Partitions))
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("data_dir is empty"))
	}
	if o.Channels == nil {
		errs = append(errs, errors.New("no channel settings"))
	}
	if o.Standby < 0 {
		errs = append(errs, fmt.Errorf("standby: %d, must not be negative", o.Standby))
	}
	if o.ForwardMemory < 0 {
		errs = append(errs, fmt.Errorf("forward memory: %d bytes, must not be negative", o.ForwardMemory))
	}
	if o.MaxTurnRecords < 1 {
		errs = append(errs, fmt.Errorf("turn.max_records: %d, must be at least 1", o.MaxTurnRecords))
	}
	return errors.Join(errs...)
}

// transactionalID is the lock of a partition: whoever initialises it last is
// the owner.
func (o *Options) transactionalID(partition int32) string {
	return o.hooks.transactionalID(fmt.Sprintf("%s-%d", o.Group, partition))
}

func (o *Options) isolation() kafkapart.Isolation { return o.hooks.isolation() }
