package broker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			up[p.key()] = floor{start, p.end}
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

// restoreEnd gives a partition that was emptied its end back, and one that was
// to be emptied and then lost its last records in a power cut: what came next
// would else be below the floor.
func (p *part) restoreEnd(f floor, now time.Time) error {
	if len(p.segments) > 0 {
		if p.end < f.start {
			p.end = max(f.start, f.end) // dropBelow does the rest
		}
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
	if n == 0 || len(p.segments) == 1 && p.segments[0].size == batchHeader && p.segments[0].end == p.end {
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
		if err := errors.Join(removeIf(filepath.Join(p.dir, segmentName(s.base))),
			removeIf(filepath.Join(p.dir, indexName(s.base)))); err != nil {
			return err
		}
	}
	p.bytes = bytesOf(p.segments)
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
