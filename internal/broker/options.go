package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// Options say where the broker keeps its data, where it listens and how much
// it may take.
type Options struct {
	// Dir is the data directory, created 0700 if it is missing. Empty keeps
	// everything in memory: nothing survives Close, and nothing is repaired.
	Dir string

	// Listen is host:port of the Kafka protocol. Port 0 takes any free one.
	// Empty means 127.0.0.1:9092. The host is also what the broker tells
	// clients to connect to, so it cannot be a wildcard.
	Listen string

	// ListenFn opens the listener in place of net.Listen, for example
	// (*kfake.VirtualNetwork).Listen in a synctest bubble.
	ListenFn func(network, address string) (net.Listener, error)

	// Sync makes an answer wait until everything it tells of is on stable
	// storage. Answers share fsyncs. False leaves it to the operating
	// system's page cache: a killed process loses nothing, a power cut may
	// lose the last seconds.
	Sync bool

	// Logger takes the broker's own messages. Nil means slog.Default().
	Logger *slog.Logger

	// OnFatal is called once, from its own goroutine, when the broker has
	// stopped serving because its disk failed it. Nil means log only; see
	// also (*node).Fatal.
	OnFatal func(error)

	// AwaitRoom makes a full disk (ENOSPC, EDQUOT, EROFS) no reason to stop for
	// good: the broker closes its connections, waits until there is room, and
	// starts again on the same address. See (*Broker).NoRoom.
	AwaitRoom bool

	hasRoom func() bool // for tests; nil asks the disk

	fsync func(*os.File) error // of what a start found written; for tests, else datasync

	// SegmentBytes is where a segment file ends. It is the grain of
	// trimming and, times the partitions loaded at once, of memory at start.
	// 0 means 16 MiB; 64 KiB to 1 GiB.
	SegmentBytes int64

	// MaxRequestBytes bounds one request; a longer one closes its
	// connection. 0 means 100 MiB (Kafka: socket.request.max.bytes); 1 MiB
	// to 1 GiB.
	MaxRequestBytes int

	// MaxConns bounds open connections over the network; further ones are closed
	// at once. 0 means 1,000; -1 no bound. Those of Broker.Dial do not count.
	MaxConns int

	// IdleTimeout is how long a connection over the network may be without a
	// request. 0 means 10 minutes (Kafka: connections.max.idle.ms); -1 for ever.
	IdleTimeout time.Duration

	fetchBytes int32 // the most that one fetch gets; for tests

	// CompactBytes: a partition of a compacted topic is compacted at start
	// when it has grown by this much, and by half, since it last was.
	// 0 means 128 MiB: a million triggers pending must not wait for it after a
	// kill -9.
	CompactBytes int64

	// RestartBytes: when partitions that a start would compact (CompactBytes)
	// have grown by this much since, all told, closed segments are compacted beside
	// kfake, with half a core, and kfake is restarted in place to take them. Clients
	// reconnect; who had a transaction open begins it anew. The copies need as much
	// room as those partitions have; without it they are compacted while kfake is
	// down. 0 means 2 GiB; -1 never. Topics with min.compaction.lag.ms do not count.
	RestartBytes int64

	// RetentionInterval is how often retention.ms and retention.bytes are
	// looked at while running. 0 means one minute; -1 only at start.
	RetentionInterval time.Duration

	// TopicBytes is retention.bytes, per partition, of topics that may
	// delete and do not set it themselves. 0 means 1 GiB; -1 no bound.
	TopicBytes int64
}

func (o Options) withDefaults() Options {
	def(&o.Listen, "127.0.0.1:9092")
	def(&o.SegmentBytes, 16<<20)
	def(&o.MaxRequestBytes, 100<<20)
	def(&o.MaxConns, 1000)
	def(&o.IdleTimeout, 10*time.Minute)
	def(&o.fetchBytes, 55<<20) // Kafka: fetch.max.bytes
	def(&o.CompactBytes, 128<<20)
	def(&o.RestartBytes, 2<<30)
	def(&o.RetentionInterval, time.Minute)
	def(&o.TopicBytes, 1<<30)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.fsync == nil {
		o.fsync = datasync
	}
	if o.ListenFn == nil {
		o.ListenFn = net.Listen
	}
	return o
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Validate joins everything that is wrong with o, after defaults.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if host, _, err := net.SplitHostPort(o.Listen); err != nil {
		bad("listen %q: %w", o.Listen, err)
	} else if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		bad("listen %q: clients are told to connect to this host, so it cannot be a wildcard", o.Listen)
	}
	if o.SegmentBytes < 64<<10 || o.SegmentBytes > 1<<30 {
		bad("segment bytes %d: want 64 KiB to 1 GiB", o.SegmentBytes)
	}
	if o.MaxRequestBytes < 1<<20 || o.MaxRequestBytes > 1<<30 {
		bad("max request bytes %d: want 1 MiB to 1 GiB", o.MaxRequestBytes)
	}
	if o.MaxConns < -1 {
		bad("max conns %d: want -1 or more", o.MaxConns)
	}
	if o.IdleTimeout < -1 {
		bad("idle timeout %v: want -1 or more", o.IdleTimeout)
	}
	if o.CompactBytes < 0 {
		bad("compact bytes %d: want 0 or more", o.CompactBytes)
	}
	if o.RestartBytes < -1 {
		bad("restart bytes %d: want -1 or more", o.RestartBytes)
	}
	if o.RetentionInterval < -1 {
		bad("retention interval %v: want -1 or more", o.RetentionInterval)
	}
	if o.TopicBytes < -1 {
		bad("topic bytes %d: want -1 or more", o.TopicBytes)
	}
	return errors.Join(errs...)
}
