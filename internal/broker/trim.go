package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Trim gives up a partition's records below offset before, as DeleteRecords
// does. Their disk space is free once a whole segment is below it. Below what
// is already gone it does nothing; beyond the end it is an error.
func (b *Broker) Trim(topic string, partition int32, before int64) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.node.trim(topic, partition, before)
}

func (b *node) trim(topic string, partition int32, before int64) error {
	info, t := b.info(topic, partition)
	switch {
	case info == nil || t == nil:
		return fmt.Errorf("trim %s/%d: no such partition", topic, partition)
	case before > info.HighWatermark || before < 0:
		return fmt.Errorf("trim %s/%d below %d: it ends at %d", topic, partition, before, info.HighWatermark)
	case before <= info.LogStartOffset:
		return nil
	}
	if b.floors != nil {
		up := map[floorKey]floor{{t.idText(), partition}: {before, info.HighWatermark}}
		if err := b.floors.raise(up); err != nil {
			b.fail(err)
			return err
		}
	}
	var err error
	b.ask(func(c *kfake.Cluster) { err = c.DeleteRecords(topic, partition, before) })
	if err != nil {
		return fmt.Errorf("trim %s/%d below %d: %w", topic, partition, before, err)
	}
	return nil
}

func (b *node) info(name string, partition int32) (*kfake.PartitionInfo, *topic) {
	var info *kfake.PartitionInfo
	b.ask(func(c *kfake.Cluster) { info = c.PartitionInfo(name, partition) })
	return info, b.topics.named(name)
}

// end is the offset the next record gets; 0 for a partition that is not there.
func (b *node) end(topic string, partition int32) int64 {
	info, _ := b.info(topic, partition)
	if info == nil {
		return 0
	}
	return info.HighWatermark
}

func (t *topic) idText() string { return base64.StdEncoding.EncodeToString(t.id[:]) }

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
	total := int64(0)
	for _, s := range segments {
		total += s.size
	}
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

// trim drops segments below a floor or past retention, before kfake runs.
func (r *repairer) trim(context.Context) error {
	ids := map[string]bool{}
	up := map[floorKey]floor{}
	for _, p := range r.parts {
		ids[p.topic.ID] = true
		f := r.floors.at(p.topic.ID, p.partition)
		if err := p.restoreEnd(f, r.now); err != nil {
			return err
		}
		p.start = min(f.start, p.end)
		if start := p.newStart(r.opts.TopicBytes, r.now); start > p.start {
			up[floorKey{p.topic.ID, p.partition}] = floor{start, p.end}
		}
	}
	if err := errors.Join(r.floors.keep(ids), r.floors.raise(up)); err != nil {
		return err
	}
	for _, p := range r.parts {
		if err := p.dropBelow(r.floors.at(p.topic.ID, p.partition).start, r.now); err != nil {
			return err
		}
	}
	return nil
}

// restoreEnd gives a partition that was emptied its end back.
func (p *part) restoreEnd(f floor, now time.Time) error {
	if len(p.segments) > 0 {
		return nil
	}
	p.end = max(p.end, f.end, p.lastEnd())
	if p.end == 0 {
		return nil
	}
	return p.empty(now)
}

// lastEnd is the end kfake wrote down at its last clean stop.
func (p *part) lastEnd() int64 {
	raw, err := os.ReadFile(filepath.Join(p.dir, "snapshot.json"))
	if err != nil {
		return 0
	}
	var s snapshotJSON
	if json.Unmarshal(raw, &s) != nil {
		return 0
	}
	return s.HighWatermark
}

// empty leaves one segment that holds nothing but the partition's end: kfake
// would start a partition without segments at offset 0 again.
func (p *part) empty(now time.Time) error {
	b := placeholder(p.end, p.epoch, now.UnixMilli())
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(p.dir, segmentName(b.base())), b); err != nil {
		return err
	}
	if err := syncDir(p.dir); err != nil {
		return err
	}
	p.segments = []segment{{base: b.base(), size: int64(len(b)), batches: 1, end: p.end, newest: b.maxTime()}}
	p.bytes, p.aborted = int64(len(b)), nil
	return nil
}

func (p *part) newStart(defaultBytes int64, now time.Time) int64 {
	ret := p.topic.retention(defaultBytes)
	start := p.start
	if n := len(p.segments); n > 0 {
		if keep := ret.keepFrom(p.segments, now); keep > 0 {
			start = max(start, p.segments[keep].base)
		}
		if ret.age >= 0 && now.UnixMilli()-p.lastTime >= ret.age.Milliseconds() {
			start = p.end
		}
	}
	return start
}

// dropBelow removes the segments that lie wholly below start, oldest first.
func (p *part) dropBelow(start int64, now time.Time) error {
	p.start = min(start, p.end)
	n := 0
	for n < len(p.segments) && p.segments[n].end <= start {
		n++
	}
	if n == 0 || len(p.segments) == 1 && p.segments[0].size == batchHeader {
		return nil // nothing to drop, or only a placeholder
	}
	gone := p.segments[:n]
	if n == len(p.segments) {
		if err := p.empty(now); err != nil {
			return err
		}
	} else {
		p.segments = p.segments[n:]
	}
	for _, s := range gone {
		if s.base == p.segments[0].base {
			continue // the placeholder took its place
		}
		if err := errors.Join(removeIf(filepath.Join(p.dir, segmentName(s.base))), removeIf(filepath.Join(p.dir, indexName(s.base)))); err != nil {
			return err
		}
	}
	p.bytes = 0
	for _, s := range p.segments {
		p.bytes += s.size
	}
	p.forgetAborted()
	return nil
}

func (p *part) forgetAborted() {
	kept := p.aborted[:0]
	for _, a := range p.aborted {
		if a.last >= p.start {
			kept = append(kept, a)
		}
	}
	p.aborted = kept
}

// housekeep applies retention while the broker runs, and compacts by a
// restart of kfake when compacted topics have grown too much.
func (b *Broker) housekeep(stop context.Context) {
	tick := time.NewTicker(b.opts.RetentionInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-tick.C:
		}
		if b.fatal.get() != nil {
			return
		}
		grown, err := b.node.retainOnce(time.Now())
		if err == nil && b.opts.RestartBytes > 0 && grown >= b.opts.RestartBytes {
			err = b.restart(stop)
		}
		if err != nil && b.fatal.get() == nil {
			b.opts.Logger.Warn("could not trim topics", "error", err)
		}
	}
}

// restart closes kfake, compacts, and starts it anew on the same address.
// Clients see what they see when a real broker restarts.
func (b *Broker) restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	begun := time.Now()
	b.node.txns.quiet(ctx, 2*time.Second)
	if err := b.node.close(); err != nil {
		b.fatal.set(err)
		return err
	}
	if err := b.fatal.get(); err != nil {
		return err
	}
	n, err := startNode(context.WithoutCancel(ctx), b.opts, b.addr, b.fatal)
	if err != nil {
		b.fatal.set(err)
		return err
	}
	b.node = n
	b.opts.Logger.Info("compacted topics by a restart of the broker", "took", time.Since(begun))
	return nil
}

// retainOnce trims what is past retention, and returns by how many bytes
// topics have grown that a compaction would shrink.
func (b *node) retainOnce(now time.Time) (grown int64, err error) {
	raw, err := os.ReadFile(filepath.Join(b.data, "topics.json"))
	if err != nil {
		return 0, err
	}
	var t topicsJSON
	if err := json.Unmarshal(raw, &t); err != nil {
		return 0, err
	}
	for _, tj := range t.Topics {
		for p := range int32(tj.Partitions) {
			if err := b.retainPartition(tj, p, now); err != nil {
				return 0, err
			}
			n, err := b.growth(tj, p)
			if err != nil {
				return 0, err
			}
			grown += n
		}
	}
	return grown, nil
}

// growth is what a partition has grown by since it was last compacted, if
// compaction may touch all of that.
func (b *node) growth(t topicJSON, p int32) (int64, error) {
	if !t.compacts() || t.number("min.compaction.lag.ms", 0) > 0 {
		return 0, nil
	}
	segments, err := listSegments(partitionDir(b.data, t.Name, p))
	if err != nil {
		return 0, err
	}
	grown := -b.cleaned[floorKey{t.ID, p}]
	for _, s := range segments {
		grown += s.size
	}
	return max(grown, 0), nil
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

// listSegments lists segments with their sizes and times of last writing.
func listSegments(dir string) ([]segment, error) {
	bases, err := segmentBases(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	segments := make([]segment, 0, len(bases))
	for _, base := range bases {
		info, err := os.Stat(filepath.Join(dir, segmentName(base)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		segments = append(segments, segment{base: base, size: info.Size(), newest: info.ModTime().UnixMilli()})
	}
	return segments, nil
}
