package broker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// retention is how long, and how much of it, a topic is kept.
type retention struct {
	age   time.Duration // negative: for ever
	bytes int64         // per partition; negative: without bound
}

func (t topicJSON) compacts() bool { return strings.Contains(t.Configs["cleanup.policy"], "compact") }

// deletes: without a policy a topic is of policy delete (Kafka's default).
func (t topicJSON) deletes() bool {
	policy, ok := t.Configs["cleanup.policy"]
	return !ok || strings.Contains(policy, "delete")
}

func (t topicJSON) retention(defaultBytes int64) retention {
	if !t.deletes() {
		return retention{-1, -1}
	}
	age := t.number("retention.ms", (7 * 24 * time.Hour).Milliseconds())
	if age > int64(100*365*24*time.Hour/time.Millisecond) {
		age = -1
	}
	return retention{time.Duration(age) * time.Millisecond, t.number("retention.bytes", defaultBytes)}
}

// number reads a numeric setting; what is missing or unreadable is d.
func (t topicJSON) number(key string, d int64) int64 {
	n, err := strconv.ParseInt(t.Configs[key], 10, 64)
	if err != nil {
		return d
	}
	return n
}

// keepFrom says which of a partition's segments are kept: those from the
// index on. The last always is, and by size never less than was asked for
// (as Kafka's UnifiedLog.deleteRetentionSizeBreachedSegments).
func (r retention) keepFrom(segments []segment, now time.Time) int {
	total := bytesOf(segments)
	keep := 0
	for keep < len(segments)-1 {
		s := segments[keep]
		old := r.age >= 0 && now.UnixMilli()-s.newest >= r.age.Milliseconds()
		if !old && (r.bytes < 0 || total-s.size < r.bytes) {
			break
		}
		total -= s.size
		keep++
	}
	return keep
}

func bytesOf(segments []segment) (n int64) {
	for _, s := range segments {
		n += s.size
	}
	return n
}

// housekeep applies retention while the broker runs, compacts topics that have
// grown too much, with a restart of kfake, and waits for room on a full disk.
// It alone starts kfake again.
func (b *Broker) housekeep(stop context.Context) {
	var due <-chan time.Time
	if b.opts.RetentionInterval > 0 {
		tick := time.NewTicker(b.opts.RetentionInterval)
		defer tick.Stop()
		due = tick.C
	}
	for {
		n := b.current()
		select {
		case <-stop.Done():
			return
		case <-n.noRoom.done:
			if !b.resume(stop) {
				return
			}
			continue
		case <-due:
		}
		if b.fatal.get() != nil {
			return
		}
		g, err := n.retainOnce(time.Now())
		if err == nil && b.opts.RestartBytes > 0 && g.bytes >= b.opts.RestartBytes {
			err = b.compactBeside(stop, n, &g)
		}
		if err != nil && b.fatal.get() == nil && stop.Err() == nil {
			b.opts.Logger.Warn("could not trim or compact topics", "error", err)
		}
	}
}

// restart closes kfake, exchanges what was compacted, and starts it anew on the same
// address. Without copies it compacts itself. Clients see what they see when a real
// broker restarts.
func (b *Broker) restart(ctx context.Context, copies map[floorKey]*ahead) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	begun := time.Now()
	b.node.txns.quiet(ctx, 2*time.Second)
	kept := b.node.doors.keep()
	if err := b.restartNode(ctx, before{kept, copies}); err != nil {
		if kept != nil {
			kept.Close()
		}
		return err
	}
	b.opts.Logger.Info("compacted topics by a restart of the broker", "took", time.Since(begun))
	return nil
}

func (b *Broker) restartNode(ctx context.Context, from before) error {
	if err := b.node.close(); err != nil {
		b.node.stopped(err)
		return err
	}
	if err := b.node.failure(); err != nil {
		return err
	}
	if err := b.startAnew(ctx, from); err != nil {
		b.node.stopped(err)
		return err
	}
	return nil
}

// retainOnce trims what is past retention, and returns what has grown.
func (b *node) retainOnce(now time.Time) (g growth, err error) {
	raw, err := os.ReadFile(filepath.Join(b.data, "topics.json"))
	if err != nil {
		return g, err
	}
	var t topicsJSON
	if err := json.Unmarshal(raw, &t); err != nil {
		return g, err
	}
	for _, tj := range t.Topics {
		for p := range int32(tj.Partitions) {
			if err := b.retainPartition(tj, p, now); err != nil {
				return g, err
			}
			if err := b.addGrowth(&g, partOf{tj, p}); err != nil {
				return g, err
			}
		}
	}
	return g, nil
}

// growth is what a start would compact.
type growth struct {
	parts  []partOf
	bytes  int64 // that they have grown by since they last were, where a compaction may touch all of that
	size   int64 // of all of them
	closed int64 // of that, what is in closed segments
}

func (b *node) addGrowth(g *growth, p partOf) error {
	if !p.topic.compacts() {
		return nil
	}
	segments, err := listSegments(p.in(b.data))
	size, cleaned := bytesOf(segments), b.cleaned[p.key()]
	if err != nil || !b.opts.toCompact(size, cleaned) {
		return err
	}
	g.parts = append(g.parts, p)
	g.size += size
	g.closed += bytesOf(segments[:max(0, len(segments)-1)])
	if p.topic.number("min.compaction.lag.ms", 0) <= 0 {
		g.bytes += size - cleaned
	}
	return nil
}

func (b *node) retainPartition(t topicJSON, p int32, now time.Time) error {
	ret := t.retention(b.opts.TopicBytes)
	info, _ := b.info(t.Name, p)
	if ret.age < 0 && ret.bytes < 0 || info == nil {
		return nil
	}
	segments, err := listSegments(partitionDir(b.data, t.Name, p))
	if err != nil || len(segments) == 0 {
		return err
	}
	start := segments[ret.keepFrom(segments, now)].base
	if ret.age >= 0 && now.UnixMilli()-info.MaxTimestamp >= ret.age.Milliseconds() {
		start = info.HighWatermark
	}
	return b.trim(t.Name, p, max(start, info.LogStartOffset))
}
