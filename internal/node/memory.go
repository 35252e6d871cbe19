package node

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/memory"
)

// shareMemory finds the memory limit of this process, sets it in the Go runtime, and
// divides it.
func (n *node) shareMemory() error {
	limit, err := memory.Find(int64(n.cfg.Memory.Limit))
	if err != nil {
		n.log.Warn("memory is not limited; set memory.limit to a size", "error", err)
	}
	limit.Apply()
	n.memory = memory.NewWatcher(limit.Bytes)
	parts := partsOf(n.cfg, n.embedded)
	n.shares = memory.Share(limit.Bytes, parts)
	n.metrics.WatchMemory(n.memory.Usage)
	if limit.Bytes == 0 {
		return nil
	}
	n.log.Info("memory is limited", "limit", limit.Bytes, "from", limit.Source, "shares", n.shares.Sum(parts),
		"cache", n.shares.Cache, "memtable", n.shares.MemTable)
	if sum := n.shares.Sum(parts); sum > limit.Bytes {
		n.log.Warn("memory.limit is less than this process's components may use; raise it, or own fewer partitions",
			"limit", limit.Bytes, "parts", sum, "partitions", n.cfg.Topics.Partitions)
	}
	if got := int(n.shares.Receipts); parts.Workers > 0 && got < parts.Receipts {
		n.log.Warn("worker.memory is more than memory.limit has room for, so workers know fewer receipts",
			"worker.memory", parts.Receipts, "receipts", got, "limit", limit.Bytes)
	}
	return kafkaconn.LowerShared(int(n.cfg.Limits.BatchBytes), n.shares.Shared)
}

// partsOf returns what a process of these settings has that holds memory.
func partsOf(c *config.Config, embedded bool) memory.Parts {
	p := memory.Parts{
		Partitions: c.Topics.Partitions, Brokers: len(c.Brokers), Engine: c.HasRole("engine"), API: c.HasRole("api"),
		Streams: c.Limits.EventStreams, Tables: embedded, Export: c.HasRole("export"),
		Receipts: c.Worker.Memory, Cache: int64(c.Store.Cache),
	}
	if embedded && c.Store.Cache == 0 {
		p.MemTable = devMemTable
	}
	if c.HasRole("history") {
		p.Readers = 3 // of events, dead letters and contents
	}
	for _, role := range config.WorkerChannels() {
		if c.HasRole(role) {
			p.Workers++
		}
	}
	return p
}

// tableShare returns the share of the history in this process. It opens before the process has a node.
func tableShare(c *config.Config) int {
	limit, _ := memory.Find(int64(c.Memory.Limit)) // shareMemory logs the error
	return int(memory.Share(limit.Bytes, partsOf(c, true)).Table)
}

// devMemTable is one memtable of a store in dev, unless the operator chose the cache that they are part of. Background
// flushes are slow on purpose, so a flood fills several memtables of each store. With 16 MiB each they took 60 MB more.
const devMemTable = 4 << 20

// watchMemory is a role: it measures memory until ctx ends.
func (n *node) watchMemory(ctx context.Context) error {
	n.memory.Run(ctx, func(u memory.Usage) {
		switch u.Pressure {
		case memory.Shed:
			n.log.Warn("memory is nearly full; the API answers 429", "used", u.Used, "limit", u.Limit)
		case memory.Slow:
			n.log.Warn("memory is short; partitions read less", "used", u.Used, "limit", u.Limit)
		case memory.Calm:
			n.log.Info("memory is sufficient again", "used", u.Used, "limit", u.Limit)
		}
	})
	return nil
}

// shedFor is how long a refused caller should wait: the time of a few garbage collections.
const shedFor = 2 * time.Second

// overloaded reports whether the gateway must refuse a request, and for how long.
func (n *node) overloaded() (time.Duration, string) {
	if !n.memory.Shedding() {
		return 0, ""
	}
	return shedFor, "this instance is short of memory; retry later, or on another instance"
}

// throttled is from which pause in the last minute on Kafka's quotas are worth a word.
const throttled = time.Second

// throttledWhy says why Kafka acknowledges nothing, if a quota is why. The quota's value is for operators: doctor
// shows it.
func (n *node) throttledWhy() string {
	pause := n.throttle.Recent()
	if pause < throttled {
		return ""
	}
	return fmt.Sprintf("a quota of Kafka for this server's user or client id is used up (the brokers paused it for "+
		"%v in the last minute, added up; `waterclock doctor` names the quota)", pause.Round(time.Second))
}

// notes returns what /readyz adds to a positive answer.
func (n *node) notes() []string {
	all := n.historyNotes()
	if pause := n.throttle.Recent(); pause >= throttled {
		all = append(all, fmt.Sprintf("Kafka throttles this process because of a quota: it paused its clients for "+
			"%v in the last minute, added up", pause.Round(time.Second)))
	}
	u := n.memory.Usage()
	if u.Pressure == memory.Calm {
		return all
	}
	doing := "partitions read less"
	if u.Pressure == memory.Shed {
		doing = "partitions read less, and the API answers 429"
	}
	return append(all, fmt.Sprintf("memory is short: %d of %d MiB; %s", u.Used>>20, u.Limit>>20, doing))
}
