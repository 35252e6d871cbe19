package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// partScan is what one partition's segments say.
type partScan struct {
	dir      string
	segments []segment
	start    int64 // log start offset; set by trim from the floors
	end      int64 // the next offset
	epoch    int32 // of the last batch
	bytes    int64
	lastTime int64    // the greatest max timestamp
	written  int64    // when the segment at hand was written, in Unix ms
	reached  position // up to where nothing that was whole is missing

	open    map[int64]*openData // by producer id: data without a marker yet
	aborted []abortedTxn
	seqs    map[int64]*seqWindow
	epochs  map[int64]int16 // the highest epoch each producer wrote with
	seen    []evidence
}

type segment struct {
	base    int64
	size    int64
	batches int
	end     int64
	newest  int64 // the greatest max timestamp
}

// openData is where a producer's open transaction begins.
type openData struct {
	epoch int16
	first int64
	at    position
}

// position is a place in a partition's log that survives a crash, unlike an
// offset that kfake has not told us.
type position struct{ base, byte int64 }

func (p position) before(q position) bool {
	return p.base < q.base || p.base == q.base && p.byte < q.byte
}

type abortedTxn struct{ pid, first, last int64 }

// evidence is a marker kfake wrote after an outcome that names its producer.
type evidence struct {
	pid    int64
	at     position
	commit bool
	data   bool // it closed data
}

// seqWindow is a producer's last five batches, by which retries are known
// (the same window kfake keeps, and Kafka).
type seqWindow struct {
	epoch   int16
	next    int32
	entries []seqEntry // oldest first
	at      int64      // when it was last written, in Unix ms; a producer's own clock may be anything
}

type seqEntry struct {
	first, next int32
	offset      int64
}

func (w *seqWindow) push(b batch) {
	first := b.baseSeq()
	next := int32((int64(first) + int64(b.lastDelta()) + 1) % (1<<31 - 1))
	if w.epoch != b.producerEpoch() {
		*w = seqWindow{epoch: b.producerEpoch()}
	}
	w.next = next
	w.entries = append(w.entries, seqEntry{first, next, b.base()})
	if len(w.entries) > 5 {
		w.entries = w.entries[1:]
	}
}

func newPartScan(dir string) *partScan {
	return &partScan{
		dir:    dir,
		open:   map[int64]*openData{},
		seqs:   map[int64]*seqWindow{},
		epochs: map[int64]int16{},
	}
}

// scanPartition reads every segment. A torn end of the last one is cut off;
// damage anywhere else is an error, for what lies behind it was acknowledged.
// watched are the producers whose markers decide an outcome.
func scanPartition(dir string, watched map[int64]bool) (*partScan, error) {
	s := newPartScan(dir)
	bases, err := segmentBases(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for i, base := range bases {
		if err := s.segment(base, i == len(bases)-1, watched); err != nil {
			return nil, fmt.Errorf("segment %s: %w", filepath.Join(dir, segmentName(base)), err)
		}
	}
	return s, nil
}

func (s *partScan) segment(base int64, last bool, watched map[int64]bool) error {
	path := filepath.Join(s.dir, segmentName(base))
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	s.written = info.ModTime().UnixMilli()
	seg := segment{base: base, end: base}
	for int(seg.size) < len(raw) {
		b, err := firstBatch(raw[seg.size:])
		if err == nil && (b.base() < s.end || b.lastDelta() < 0) {
			err = fmt.Errorf("offset %d follows offset %d", b.base(), s.end-1)
		}
		if err != nil {
			if !last || !hasHole(raw, int(seg.size)) && wholeBatchIn(raw[seg.size+1:]) {
				return fmt.Errorf("damaged at byte %d, with good records after it (%w): restore a copy, or delete "+
					"the broker directory to start empty", seg.size, err)
			}
			break
		}
		s.batch(b, position{base, seg.size}, watched)
		seg.size += int64(len(b))
		seg.batches++
		seg.end = b.end()
		seg.newest = max(seg.newest, b.maxTime())
	}
	s.reached = position{base, seg.size}
	if s.cutShort(raw[seg.size:]) {
		s.reached.byte = int64(len(raw))
	}
	if int(seg.size) < len(raw) {
		if err := truncateFile(path, seg.size); err != nil {
			return err
		}
	}
	if seg.batches == 0 {
		return errors.Join(os.Remove(path), removeIf(filepath.Join(s.dir, indexName(base))))
	}
	s.segments = append(s.segments, seg)
	s.bytes += seg.size
	return nil
}

// cutShort says whether rest is the beginning of one batch, so that nothing
// that was whole is lost in it.
func (s *partScan) cutShort(rest []byte) bool {
	if len(rest) < batchHeader {
		return true
	}
	b := batch(rest)
	return rest[16] == 2 && b.base() >= s.end && batchPrefix+int64(binary.BigEndian.Uint32(rest[8:])) > int64(len(rest))
}

// hasHole looks for a disk sector of zeros from byte at on: what a power cut
// leaves where a page was not written back before later ones were. Of the first
// sector the part before at may have been written back earlier.
func hasHole(raw []byte, at int) bool {
	const sector = 512
	for end := (at/sector + 1) * sector; end <= len(raw); at, end = end, end+sector {
		if zero(raw[at:end]) {
			return true
		}
	}
	return false
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// wholeBatchIn looks for a batch with a good checksum anywhere in raw: the
// sign of damage, where a torn write leaves nothing whole behind it.
func wholeBatchIn(raw []byte) bool {
	for i := 0; i+batchHeader <= len(raw); i++ {
		if raw[i+16] != 2 || raw[i] != 0 {
			continue
		}
		if n := binary.BigEndian.Uint32(raw[i+8:]); n < batchHeader-batchPrefix || int(n) > len(raw)-i-batchPrefix {
			continue
		}
		b := batch(raw[i:])
		b = b[:batchPrefix+int(binary.BigEndian.Uint32(b[8:]))]
		if crc32.Checksum(b[21:], crcTable) == b.crc() {
			return true
		}
	}
	return false
}

func (s *partScan) batch(b batch, at position, watched map[int64]bool) {
	s.end = b.end()
	s.epoch = b.leaderEpoch()
	s.lastTime = max(s.lastTime, b.maxTime())
	pid := b.producerID()
	if pid < 0 {
		return
	}
	if e, ok := s.epochs[pid]; !ok || e < b.producerEpoch() {
		s.epochs[pid] = b.producerEpoch()
	}
	switch {
	case b.control():
		s.marker(b, at, watched[pid])
		return
	case b.transactional() && s.open[pid] == nil:
		s.open[pid] = &openData{b.producerEpoch(), b.base(), at}
	}
	w := s.seqs[pid]
	if w == nil {
		w = &seqWindow{epoch: b.producerEpoch()}
		s.seqs[pid] = w
	}
	w.push(b)
	w.at = s.written
}

func (s *partScan) marker(b batch, at position, watched bool) {
	pid := b.producerID()
	data := s.open[pid]
	commit := b.commits()
	if data != nil && !commit {
		s.aborted = append(s.aborted, abortedTxn{pid, data.first, b.base()})
	}
	delete(s.open, pid)
	if watched {
		s.seen = append(s.seen, evidence{pid, at, commit, data != nil})
	}
}

// close writes the marker that ends a producer's open transaction.
func (s *partScan) close(pid int64, epoch int16, commit bool, now int64) error {
	last := &s.segments[len(s.segments)-1]
	m := marker(s.end, s.epoch, pid, epoch, commit, now)
	if err := writeDurably(filepath.Join(s.dir, segmentName(last.base)), os.O_APPEND, m); err != nil {
		return err
	}
	s.batch(m, position{last.base, last.size}, nil)
	last.size += int64(len(m))
	last.batches++
	last.end = s.end
	last.newest = max(last.newest, now)
	s.bytes += int64(len(m))
	return nil
}

func removeIf(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// index brings the segment's index to one entry a batch. kfake appends to it
// and finds its entries by number.
func (s *partScan) index(seg segment) error {
	path := filepath.Join(s.dir, indexName(seg.base))
	if info, err := os.Stat(path); err == nil && info.Size() == int64(seg.batches)*indexEntry {
		return nil
	}
	f, err := os.Open(filepath.Join(s.dir, segmentName(seg.base)))
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	entries := make([]byte, 0, seg.batches*indexEntry)
	for len(raw) >= batchHeader {
		b := batch(raw)
		entries = appendIndexEntry(entries, b.leaderEpoch(), b.maxTime(), b.transactional())
		raw = raw[batchPrefix+int(binary.BigEndian.Uint32(raw[8:])):]
	}
	return writeFile(path, entries)
}

// indexEntry is the length of one: version 1, checksum 1, epoch 4,
// max timestamp 8, flags 1 (kfake, persist.go; little-endian).
const indexEntry = 15

func appendIndexEntry(dst []byte, epoch int32, maxTime int64, open bool) []byte {
	var e [indexEntry]byte
	e[0] = kfakeFormat
	binary.LittleEndian.PutUint32(e[2:], uint32(epoch))
	binary.LittleEndian.PutUint64(e[6:], uint64(maxTime))
	if open {
		e[14] = 1
	}
	e[1] = byte(crc32.Checksum(e[2:], crcTable))
	return append(dst, e[:]...)
}

// sortedOpen lists the open producers in the order they began, so that the
// same disk is always repaired to the same log.
func (s *partScan) sortedOpen() []int64 {
	pids := make([]int64, 0, len(s.open))
	for pid := range s.open {
		pids = append(pids, pid)
	}
	slices.SortFunc(pids, func(a, b int64) int { return int(s.open[a].first - s.open[b].first) })
	return pids
}
