package broker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// compact rewrites compacted topics that have grown enough. Every transaction
// is ended by now, so all of a log may be looked at.
func (r *repairer) compact(ctx context.Context) error {
	path := filepath.Join(r.dir, cleanedFile)
	cleaned, err := loadCleaned(path)
	if err != nil {
		return err
	}
	next := cleanedJSON{Version: layoutVersion}
	for _, p := range r.parts {
		if !p.topic.compacts() || len(p.segments) == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		size, ok := cleaned[floorKey{p.topic.ID, p.partition}]
		if grown := p.bytes - size; !ok && p.bytes >= r.opts.CompactBytes || ok && grown >= r.opts.CompactBytes && grown >= size/2 {
			if err := r.compactPart(p); err != nil {
				return fmt.Errorf("%s-%d: %w", p.topic.Name, p.partition, err)
			}
			size, ok = p.bytes, true
		}
		if ok {
			cleaned[floorKey{p.topic.ID, p.partition}] = size
			next.Partitions = append(next.Partitions, cleanedPart{p.topic.ID, p.partition, size})
		}
	}
	r.cleaned = cleaned
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return replaceFile(path, raw)
}

// cleanedJSON says how long partitions were when they were last compacted.
type cleanedJSON struct {
	Version    int           `json:"version"`
	Partitions []cleanedPart `json:"partitions"`
}

type cleanedPart struct {
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Bytes     int64  `json:"bytes"`
}

// loadCleaned treats what it cannot read as empty: it costs a compaction.
func loadCleaned(path string) (map[floorKey]int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var j cleanedJSON
	out := map[floorKey]int64{}
	if json.Unmarshal(raw, &j) != nil || j.Version != layoutVersion {
		return out, nil
	}
	for _, p := range j.Partitions {
		out[floorKey{p.TopicID, p.Partition}] = p.Bytes
	}
	return out, nil
}

func (r *repairer) compactPart(p *part) error {
	c := newCleaner(p, r.now)
	if err := c.survey(); err != nil {
		return err
	}
	work := filepath.Join(r.dir, cleanDir)
	name := filepath.Base(p.dir)
	fresh := filepath.Join(work, name+".new")
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return err
	}
	segments, err := c.rewrite(fresh, r.opts.SegmentBytes)
	if err != nil {
		return err
	}
	if err := swapIn(work, name, p.dir); err != nil {
		return err
	}
	r.log.Info("compacted", "topic", p.topic.Name, "partition", p.partition, "before", p.bytes, "after", c.written)
	p.segments, p.bytes, p.aborted = segments, c.written, nil
	return nil
}

// swapIn puts the new directory in the old one's place. Killed between any
// two steps, finishCleaning finds out which.
//
//	partitions/X, cleaning/X.new              not yet: the new one is dropped
//	cleaning/X.old, cleaning/X.new            half: the new one moves in
//	partitions/X, cleaning/X.old              done: the old one is dropped
func swapIn(work, name, dir string) error {
	fresh, old := filepath.Join(work, name+".new"), filepath.Join(work, name+".old")
	for _, step := range []func() error{
		func() error { return syncDir(fresh) },
		func() error { return syncDir(work) },
		func() error { return os.Rename(dir, old) },
		func() error { return syncDir(work) },
		func() error { return os.Rename(fresh, dir) },
		func() error { return syncDir(filepath.Dir(dir)) },
		func() error { return os.RemoveAll(old) },
		func() error { return syncDir(work) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func finishCleaning(root, data string) error {
	work := filepath.Join(root, cleanDir)
	entries, err := os.ReadDir(work)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(work, 0o700)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".old")
		if !ok {
			continue
		}
		dir := filepath.Join(data, "partitions", name)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			if err := os.Rename(filepath.Join(work, name+".new"), dir); err != nil {
				return err
			}
			if err := syncDir(filepath.Dir(dir)); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(work, e.Name())); err != nil {
			return err
		}
	}
	return syncDir(work)
}

// cleaner compacts one partition as Kafka's LogCleaner would, with what only
// a log without open transactions allows: records of committed transactions
// become plain ones, and markers go.
type cleaner struct {
	p        *part
	now      time.Time
	lag      int64 // min.compaction.lag.ms
	keepNull int64 // delete.retention.ms

	limit   int64             // offsets from here on stay as they are
	latest  map[keyHash]int64 // offset of each key's last record below limit
	written int64
}

// keyHash stands for a key; Kafka's cleaner trusts 128 bits of MD5 likewise.
type keyHash [16]byte

func hashKey(key []byte) keyHash {
	sum := sha256.Sum256(key)
	return keyHash(sum[:16])
}

func newCleaner(p *part, now time.Time) *cleaner {
	return &cleaner{
		p: p, now: now,
		lag:      p.topic.number("min.compaction.lag.ms", 0),
		keepNull: p.topic.number("delete.retention.ms", (24 * time.Hour).Milliseconds()),
		latest:   map[keyHash]int64{},
	}
}

// each calls fn with every batch, oldest first, until it returns false.
func (c *cleaner) each(fn func(batch) (bool, error)) error {
	for _, s := range c.p.segments {
		raw, err := os.ReadFile(filepath.Join(c.p.dir, segmentName(s.base)))
		if err != nil {
			return err
		}
		for len(raw) > 0 {
			b, err := firstBatch(raw)
			if err != nil {
				return err
			}
			if more, err := fn(b); err != nil || !more {
				return err
			}
			raw = raw[len(b):]
		}
	}
	return nil
}

// survey finds the limit, and the last record of each key below it.
func (c *cleaner) survey() error {
	c.limit = math.MaxInt64
	return c.each(func(b batch) (bool, error) {
		if c.lag > 0 && b.maxTime() > c.now.UnixMilli()-c.lag {
			c.limit = b.base()
			return false, nil
		}
		if b.control() || c.p.isAborted(b) {
			return true, nil
		}
		return true, eachRecord(b, func(rec record) {
			if rec.key != nil {
				c.latest[hashKey(rec.key)] = b.base() + int64(rec.delta)
			}
		})
	})
}

func (p *part) isAborted(b batch) bool {
	if !b.transactional() {
		return false
	}
	i, _ := slices.BinarySearchFunc(p.aborted, b.base(), func(a abortedTxn, base int64) int {
		if a.last < base {
			return -1
		}
		return 1
	})
	for _, a := range p.aborted[i:] {
		if a.pid == b.producerID() && a.first <= b.base() && b.base() < a.last {
			return true
		}
	}
	return false
}

func eachRecord(b batch, fn func(record)) error {
	raw, err := b.records()
	if err != nil {
		return err
	}
	for range b.count() {
		rec, rest, ok := nextRecord(raw)
		if !ok {
			return errRecord
		}
		fn(rec)
		raw = rest
	}
	return nil
}

// rewrite writes the survivors into dir and returns their segments.
func (c *cleaner) rewrite(dir string, segmentBytes int64) ([]segment, error) {
	w := &segmentWriter{dir: dir, max: segmentBytes}
	err := c.each(func(b batch) (bool, error) {
		out, err := c.rewritten(b)
		if out == nil || err != nil {
			return true, err
		}
		c.written += int64(len(out))
		return true, w.add(out)
	})
	if err != nil {
		return nil, err
	}
	return w.finish()
}

// rewritten is what becomes of one batch; nil, if nothing. Something of the
// last is always kept, a marker too: who reads up to the end waits for it.
func (c *cleaner) rewritten(b batch) (batch, error) {
	switch {
	case c.p.isAborted(b):
		return nil, nil
	case b.base() >= c.limit:
		return plain(b), nil
	}
	out, err := c.clean(b)
	if out == nil && b.end() == c.p.end {
		out = plain(b)
	}
	return out, err
}

// plain makes a committed batch one without transaction.
func plain(b batch) batch {
	if !b.transactional() {
		return b
	}
	out := slices.Clone(b)
	out.setAttrs(out.attrs() &^ attrTxn)
	out.reseal()
	return out
}

// clean returns b with the records that survive, or nil.
func (c *cleaner) clean(b batch) (batch, error) {
	if b.control() {
		return nil, nil
	}
	var kept []byte
	count := int32(0)
	err := eachRecord(b, func(rec record) {
		if c.survives(b, rec) {
			kept = append(kept, rec.raw...)
			count++
		}
	})
	switch {
	case err != nil || count == 0:
		return nil, err
	case count == b.count():
		return plain(b), nil
	}
	return seal(kmsg.RecordBatch{
		FirstOffset:          b.base(),
		PartitionLeaderEpoch: b.leaderEpoch(),
		Attributes:           int16(b.attrs() &^ (attrCodec | attrTxn)),
		LastOffsetDelta:      b.lastDelta(),
		FirstTimestamp:       b.baseTime(),
		MaxTimestamp:         b.maxTime(),
		ProducerID:           b.producerID(),
		ProducerEpoch:        b.producerEpoch(),
		FirstSequence:        b.baseSeq(),
		NumRecords:           count,
		Records:              kept,
	}), nil
}

func (c *cleaner) survives(b batch, rec record) bool {
	if rec.key == nil {
		return false
	}
	if c.latest[hashKey(rec.key)] > b.base()+int64(rec.delta) {
		return false
	}
	at := b.baseTime() + rec.timeDelta
	if b.attrs()&attrStamped != 0 {
		at = b.maxTime()
	}
	return !rec.null || c.now.UnixMilli()-at < c.keepNull
}

// segmentWriter cuts batches into segments with their indexes.
type segmentWriter struct {
	dir  string
	max  int64
	done []segment
	open segment
	data []byte
	idx  []byte
}

func (w *segmentWriter) add(b batch) error {
	if w.open.batches > 0 && w.open.size >= w.max {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.open.batches == 0 {
		w.open = segment{base: b.base()}
	}
	w.data = append(w.data, b...)
	w.idx = appendIndexEntry(w.idx, b.leaderEpoch(), b.maxTime(), false)
	w.open.size += int64(len(b))
	w.open.batches++
	w.open.end = b.end()
	w.open.newest = max(w.open.newest, b.maxTime())
	return nil
}

func (w *segmentWriter) flush() error {
	path := filepath.Join(w.dir, segmentName(w.open.base))
	if err := errors.Join(writeFile(path, w.data), writeFile(filepath.Join(w.dir, indexName(w.open.base)), w.idx)); err != nil {
		return err
	}
	at := time.UnixMilli(w.open.newest) // retention goes by it
	if err := os.Chtimes(path, at, at); err != nil {
		return err
	}
	w.done = append(w.done, w.open)
	w.open, w.data, w.idx = segment{}, w.data[:0], w.idx[:0]
	return nil
}

func (w *segmentWriter) finish() ([]segment, error) {
	if w.open.batches > 0 {
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	return w.done, nil
}
