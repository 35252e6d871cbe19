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
	"github.com/waterclock/waterclock/pipeline/quota"
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
	Address    string       // where gateways reach the owners in this process; published in progress

	Dir     string            // stores live in <Dir>/<partition>
	Cache   *statestore.Cache // shared by all partitions; nil makes one
	StoreFS vfs.FS            // nil is the disk; tests use memory that can crash

	Limits topics.Limits
	// BatchBytes is how much memory one batch of records may take after decompression;
	// setting limits.batch_bytes. A larger batch is skipped and refused as a whole. 0 means
	// 64 MiB.
	BatchBytes int
	Machine    trigger.Machine // settings of every decision; its DuePartition is set per partition
	Channels   Channels

	ManageTopics bool  // create missing due topics
	Replication  int16 // of topics it creates; -1 the broker's default

	// Quota returns the limits of a tenant; nil means no limits.
	Quota func(tenant string) quota.Limit
	// NoMaxPending says that no limit of Quota has a MaxPending, so an opening counts nothing.
	NoMaxPending bool

	EventsPayload bool // payload in registered and replaced events
	Uncompressed  bool // neither events nor states are compressed

	// MaxTurnRecords bounds the commands that one turn reads, and the timers that it fires.
	// 0 means 5,000.
	MaxTurnRecords int
	// MinInterval is the least time from the start of one turn to the next.
	// 0 means adaptive; negative means none.
	MinInterval time.Duration
	// BarrierMaxHold is how long an open transaction of a foreign producer on commands may
	// delay firing, once per stable offset. 0 means 10 s.
	BarrierMaxHold time.Duration
	// MaxClockOffset is how far this node's clock may be from a broker's. Beyond it the
	// partition holds until the clocks come closer, or a second broker agrees with the
	// first. 0 means 30 s.
	MaxClockOffset time.Duration
	// MaxPending bounds the triggers one partition will hold; registers beyond
	// it are refused with CodeOverloaded. 0 means 5,000,000; -1 no bound.
	MaxPending int64

	// BehindAfter is how late a tenant's timers may be while they fall due faster than they fire. Beyond it gateways
	// are told to take no registers of the tenant. 0 means 10 s; negative means no bound.
	BehindAfter time.Duration
	// MaxTenantChannels bounds the channels that the commands of one tenant create, counted
	// per process. 0 means 20.
	MaxTenantChannels int
	// MaxDone bounds the done records of one partition; the oldest go first. Setting
	// dedup.max_per_partition. 0 means 5,000,000.
	MaxDone int64
	// ForwardMemory bounds the bytes that one partition keeps in memory of the records that
	// it forwards. The rest is read from Kafka later. The routes share it: each has at
	// least 256 KiB, and may always hold one record. 0 means 16 MiB.
	ForwardMemory int
	// OutcomeMemory bounds the bytes of outcomes that one partition keeps for gateways. 0
	// means 4 MiB.
	OutcomeMemory int
	// MemTableBytes is one memtable of a store. 0 means 16 MiB.
	MemTableBytes int
	// DisableWAL keeps no log in the stores. What a crash loses of a store is read from
	// topic state again.
	DisableWAL bool
	// FetchBytes bounds what one fetch of a partition's client returns, before
	// decompression. A fetch may always return one batch. 0 means 4 MiB.
	FetchBytes int
	// DecodedBytes bounds what a partition's client has decompressed, records and headers included,
	// and that times Partitions bounds what all have of batches above 1 MiB. One batch may always
	// be, up to BatchBytes. 0 means BatchBytes, and four times that.
	DecodedBytes int
	// DiskReserve is how many bytes must be free on the disk of the stores. Below that the
	// disk counts as full: this process gives its partitions away, and takes partitions
	// only above twice as many. 0 means that only a failed write counts.
	DiskReserve int64
	// Pressed reports whether memory is short. Partitions then read less at a time, and
	// standbys pause. nil means never.
	Pressed func() bool
	// CatchUpRate is how many missed occurrences of triggers under fire_all fire per
	// second, over all partitions. Each partition keeps to its P-th share. 0 means 10,000;
	// negative means no bound.
	CatchUpRate float64
	// MaxAway is how old a local store may be. An older one is rebuilt. It is half of
	// delete.retention.ms of topic state. 0 means 12 h.
	MaxAway time.Duration
	// AcceptGaps lets partitions resume from these offsets although retention or compaction
	// removed commands before them.
	AcceptGaps []Gap
	// TakeOverGroup names a group. This group takes its partitions for good and fences its
	// owners.
	TakeOverGroup string
	// OpenAtOnce bounds how many partitions open at the same time, beside those that restore their stores or
	// wait for that: four restore at a time. 0 means 16.
	OpenAtOnce int
	// Standby is how many copies of each partition other members keep warm. A member with a
	// copy takes over without a restore. 0 means none.
	Standby int
	// ServerAssigns lets the brokers decide who owns what (KIP-848), rather than the
	// members. Membership is then never static.
	ServerAssigns bool
	// HangAfter is how long a partition may stay at one step that waits only for this
	// machine. After that the process ends. 0 means 1 min.
	HangAfter time.Duration
	// SessionTimeout is how long the group waits for a silent member. 0 means 6 s.
	SessionTimeout time.Duration
	// GroupHeartbeat is how often a member asks whether the group rebalances. It is most of
	// the time of a clean hand-over. 0 means 100 ms.
	GroupHeartbeat time.Duration
	// TransactionTimeout is how long the broker waits for a silent owner. 0 means 10 s.
	TransactionTimeout time.Duration
	// WatermarkInterval is the least time between two watermarks of a partition. 0 writes none,
	// and progress keeps the format of versions that know no watermarks.
	WatermarkInterval time.Duration
	// WatermarkIdle is the time between two watermarks of a partition where nothing happens. 0
	// means 5 s.
	WatermarkIdle time.Duration
	// Heartbeat is how often an idle partition commits, so that its
	// transactional id does not expire. 0 means 1 h.
	Heartbeat time.Duration
	// OverdueBound is how late a timer may be before Reconcile counts it. 0 means 10 min.
	OverdueBound time.Duration
	// FetchMaxWait is how long a broker holds an empty fetch. A partition that is added
	// while a fetch of kgo is under way may wait that long. 0 means 500 ms, as in Kafka.
	FetchMaxWait time.Duration

	Now      func() time.Time // nil means time.Now; for clock-fault tests
	Logger   *slog.Logger
	Listener Listener
	Tracing  *tracing.Tracer // spans of sampled commands and of what fires from them; nil is off

	// TimerMemory bounds the timers of one partition that are in memory, because they are due or
	// will be within minutes. The rest lie in the store. While more are due than that, a tenant's
	// backlog fires in the order of due times alone. 0 means 80 MiB, for about a million.
	TimerMemory int64

	hooks        hooks // break the engine in tests of the test suites
	restoreChunk int   // 0 means the default
	wheelEntries int   // 0: as TimerMemory has it
	pacedEntries int
	maxUnknown   int
	damaged      time.Duration // 0 means damagedFor
}

// Channels gives the engine the channel settings.
type Channels interface {
	// Settings returns the settings of a channel by name, also of one that is not
	// configured.
	Settings(name string) ChannelSettings
	// Known says whether the name is configured.
	Known(name string) bool
	// Configured lists the names that Known is true for.
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
	def(&o.BehindAfter, 10*time.Second)
	def(&o.MaxTenantChannels, 20)
	def(&o.MaxDone, 5_000_000)
	def(&o.ForwardMemory, 16<<20)
	def(&o.OutcomeMemory, 4<<20)
	def(&o.FetchBytes, 4<<20)
	def(&o.CatchUpRate, 10_000)
	def(&o.MaxAway, 12*time.Hour)
	def(&o.OpenAtOnce, 16)
	def(&o.HangAfter, time.Minute)
	def(&o.SessionTimeout, 6*time.Second)
	def(&o.GroupHeartbeat, 100*time.Millisecond)
	def(&o.TransactionTimeout, 10*time.Second)
	def(&o.WatermarkIdle, 5*time.Second)
	def(&o.Heartbeat, time.Hour)
	def(&o.OverdueBound, 10*time.Minute)
	def(&o.FetchMaxWait, 500*time.Millisecond)
	def(&o.TimerMemory, 80<<20)
	def(&o.wheelEntries, entriesOf(o.TimerMemory))
	def(&o.pacedEntries, max(1, o.wheelEntries/pacedShare))
	def(&o.maxUnknown, maxUnknown)
	if o.ServerAssigns {
		o.InstanceID = "" // a static member that leaves would keep our partitions until the session timeout
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

// catchUpShare is one partition's share of CatchUpRate.
func (o *Options) catchUpShare() float64 { return o.CatchUpRate / float64(o.Partitions) }

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

// transactionalID is the lock of a partition: the owner is whoever initialised it last.
func (o *Options) transactionalID(partition int32) string {
	return o.hooks.transactionalID(fmt.Sprintf("%s-%d", o.Group, partition))
}

func (o *Options) isolation() kafkapart.Isolation { return o.hooks.isolation() }
