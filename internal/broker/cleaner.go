package broker

import (
	"crypto/sha256"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cleaner compacts one partition as Kafka's LogCleaner would, with what only
// a log without open transactions allows: records of committed transactions
// become plain ones, and markers go. Where one is open (stable), nothing changes.
type cleaner struct {
	p        *part
	now      time.Time
	lag      int64 // min.compaction.lag.ms
	keepNull int64 // delete.retention.ms

	stable int64        // offsets from here on are copied byte for byte: some transaction has not ended
	breath func() error // called after each segment; nil: go on

	limit   int64             // records from here on stay, as min.compaction.lag.ms has it
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
		stable:   math.MaxInt64,
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
		if c.breath == nil {
			continue
		}
		if err := c.breath(); err != nil {
			return err
		}
	}
	return nil
}

// survey finds the limit, and the last record of each key below it.
func (c *cleaner) survey() error {
	c.limit = c.stable
	return c.each(func(b batch) (bool, error) {
		if b.base() >= c.stable {
			return false, nil
		}
		if c.lag > 0 && b.maxTime() > c.now.UnixMilli()-c.lag {
			c.limit = b.base()
			return false, nil
		}
		if b.control() || c.p.isAborted(b) {
			return true, nil
		}
		return true, kept(eachRecord(b, func(rec record) {
			if rec.key != nil {
				c.latest[hashKey(rec.key)] = b.base() + int64(rec.delta)
			}
		}))
	})
}

// kept passes over a batch that an older version let in, although it is too
// large to be read: it stays as it is, and no start fails for it.
func kept(err error) error {
	if errors.Is(err, errTooLarge) {
		return nil
	}
	return err
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
	case b.base() >= c.stable:
		return b, nil
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
	var left []byte
	count := int32(0)
	err := eachRecord(b, func(rec record) {
		if c.survives(b, rec) {
			left = append(left, rec.raw...)
			count++
		}
	})
	switch {
	case errors.Is(err, errTooLarge):
		return plain(b), nil
	case err != nil || count == 0:
		return nil, err
	case count == b.count():
		return plain(b), nil
	}
	left, codec, err := compressed(left, b.codec())
	return seal(kmsg.RecordBatch{
		FirstOffset:          b.base(),
		PartitionLeaderEpoch: b.leaderEpoch(),
		Attributes:           int16(b.attrs()&^(attrCodec|attrTxn) | uint16(codec)),
		LastOffsetDelta:      b.lastDelta(),
		FirstTimestamp:       b.baseTime(),
		MaxTimestamp:         b.maxTime(),
		ProducerID:           b.producerID(),
		ProducerEpoch:        b.producerEpoch(),
		FirstSequence:        b.baseSeq(),
		NumRecords:           count,
		Records:              left,
	}), err
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
	w.idx = appendIndexEntry(w.idx, b.leaderEpoch(), b.maxTime(), b.transactional())
	w.open.size += int64(len(b))
	w.open.batches++
	w.open.end = b.end()
	w.open.newest = max(w.open.newest, b.maxTime())
	return nil
}

func (w *segmentWriter) flush() error {
	path := filepath.Join(w.dir, segmentName(w.open.base))
	if err := errors.Join(writeFile(path, w.data), writeFile(filepath.Join(w.dir, indexName(w.open.base)),
		w.idx)); err != nil {
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
