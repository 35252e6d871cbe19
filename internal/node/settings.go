package node

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// engineOptions converts the settings for package pipeline.
func (n *node) engineOptions() pipeline.Options {
	c := n.cfg
	o := pipeline.Options{
		Kafka: n.clients, Names: n.names, Partitions: int32(c.Topics.Partitions),
		ManageTopics: c.Topics.Manage, Replication: replicationFactor(c),

		Group: c.Group, Cluster: c.Group, InstanceID: n.instanceID(), Address: n.internalAddress,
		Standby: c.Standby, ServerAssigns: c.Protocol == "consumer", HangAfter: c.HangAfter,
		AcceptGaps: n.opts.AcceptGaps, TakeOverGroup: n.opts.TakeOver,

		Dir: filepath.Join(c.DataDir, storeDir), Cache: n.storeCache(),
		MemTableBytes: int(n.shares.MemTable), MaxTurnRecords: int(n.shares.Turn), DisableWAL: !c.Store.WAL,
		OutcomeMemory: int(n.shares.Outcomes), ForwardMemory: int(n.shares.Outbox),
		FetchBytes: int(n.shares.Fetch), TimerMemory: n.shares.Timers, DecodedBytes: n.decodedBytes(),
		DiskReserve: int64(c.Disk.Reserve), Pressed: n.memory.Pressed,
		Limits: topics.Limits{Payload: int(c.Limits.Payload)}, BatchBytes: int(c.Limits.BatchBytes),
		MaxPending: n.pendingLimit(), BehindAfter: n.behindAfter(), MaxTenantChannels: c.Limits.TenantChannels,
		MaxDone: int64(c.Dedup.MaxPerPartition), Quota: quotaOf(c), NoMaxPending: noMaxPending(c),

		Machine: trigger.Machine{
			Horizon: c.Dedup.Horizon, MisfireAfter: c.MisfireAfter, MaxCatchUp: c.CatchUp.Max, Timetable: n.timetable,
			CallbackURL: n.allowURL,
		},
		Channels: channelSettings{c, new(sync.Map)}, EventsPayload: c.Events.Payload,
		Uncompressed: c.Events.Compression == "none", CatchUpRate: catchUpRate(c),
		MinInterval: n.minInterval(), BarrierMaxHold: c.Barrier.MaxHold, MaxClockOffset: c.Clock.MaxOffset,
		WatermarkInterval: c.Watermarks.Interval, WatermarkIdle: c.Watermarks.IdleInterval,

		Logger: n.log, Listener: n.listener(), Tracing: n.tracing,
	}
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	return o
}

// storeCache makes the block cache. Where memory has a limit, the filters of known keys share the cache's bytes.
func (n *node) storeCache() *statestore.Cache {
	if n.memory.Usage().Limit > 0 {
		return statestore.NewSharedCache(n.shares.Cache)
	}
	return statestore.NewCache(n.shares.Cache)
}

// listener is the metrics, and whoever measures the steps of turns.
func (n *node) listener() pipeline.Listener {
	if n.opts.Step == nil {
		return n.metrics
	}
	return stepped{n.metrics, n.opts.Step}
}

type stepped struct {
	pipeline.Listener
	step func(int32, pipeline.Step)
}

func (s stepped) Step(partition int32, step pipeline.Step) { s.step(partition, step) }

// minInterval converts the setting. A transaction costs an embedded broker little, so there
// adaptive means none.
func (n *node) minInterval() time.Duration {
	if n.embedded && n.cfg.Turn.MinInterval == 0 {
		return -1
	}
	return n.cfg.Turn.MinInterval
}

// catchUpRate converts the setting. In the settings 0 means no limit; in package pipeline it
// means the default.
func catchUpRate(c *config.Config) float64 {
	if c.CatchUp.Rate == 0 {
		return -1
	}
	return c.CatchUp.Rate
}

// decodedBytes returns the share of what a partition's client has decompressed. Without a memory limit,
// package pipeline has its default, which follows limits.batch_bytes.
func (n *node) decodedBytes() int {
	if n.memory.Usage().Limit == 0 {
		return 0
	}
	return int(n.shares.Decoded)
}

// pendingLimit returns the limit of pending triggers, and also publishes it as a metric.
func (n *node) pendingLimit() int64 {
	n.metrics.PendingLimit(n.cfg.Limits.MaxPending)
	return maxPending(n.cfg)
}

// maxPending converts the setting. In the settings 0 means no limit; in package pipeline it means
// the default.
func maxPending(c *config.Config) int64 {
	if c.Limits.MaxPending == 0 {
		return -1
	}
	return int64(c.Limits.MaxPending)
}

// behindAfter converts the setting, in the same way.
func (n *node) behindAfter() time.Duration {
	if n.cfg.Limits.Behind == 0 {
		return -1
	}
	return n.cfg.Limits.Behind
}

// quotaOf returns the tenants' limits. It returns nil if no tenant has a limit, so that pipeline
// need not count.
func quotaOf(c *config.Config) func(string) quota.Limit {
	if len(c.Tenants) == 0 {
		return nil
	}
	return func(name string) quota.Limit {
		t, ok := c.Tenants[name]
		if !ok {
			return quota.Limit{}
		}
		return quota.Limit{Rate: t.Rate, MaxPending: int64(t.MaxPending)}
	}
}

// noMaxPending reports whether no tenant has a limit of pending triggers.
func noMaxPending(c *config.Config) bool {
	for _, t := range c.Tenants {
		if t.MaxPending > 0 {
			return false
		}
	}
	return true
}

func replicationFactor(c *config.Config) int16 {
	if c.Topics.Replication == 0 {
		return -1
	}
	return int16(c.Topics.Replication)
}

// channelSettings gives the engine the settings of a channel. The engine asks at every firing, so
// the answers are cached. There are at most a few hundred channels.
type channelSettings struct {
	c     *config.Config
	known *sync.Map // name → pipeline.ChannelSettings
}

func (s channelSettings) Known(name string) bool {
	_, ok := s.c.Channels[name]
	return ok || config.BuiltIn(name)
}

func (s channelSettings) Configured() []string {
	return slices.AppendSeq([]string{"default"}, maps.Keys(s.c.Channels))
}

func (s channelSettings) AutoCreate() bool { return s.c.AutoCreate }

func (s channelSettings) Settings(name string) pipeline.ChannelSettings {
	if v, ok := s.known.Load(name); ok {
		return v.(pipeline.ChannelSettings)
	}
	ch := s.c.Channel(name)
	settings := pipeline.ChannelSettings{
		Channel: trigger.Channel{
			Topic: ch.Topic, Receipts: ch.Receipts, ReceiptTimeout: ch.ReceiptTimeout, Retry: ch.Retry,
			JitterLow: ch.JitterLow,
		},
		ByKey: ch.Partitioning == "by_key", HighLane: ch.HighLane,
	}
	s.known.Store(name, settings)
	return settings
}
