package analytics

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"path"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Names in the directory.
const (
	eventsDir   = "events"
	tailDir     = "tail"
	manifestDir = "manifest"
	tmpDir      = "tmp"
	lockFile    = "lock" // in a directory of tmp
)

// rowsPerGroup bounds what the writer holds. DuckDB shares row groups among its threads.
const rowsPerGroup = 1 << 17

// batchRows are decoded before the writer gets them.
const batchRows = 512

// sealing is the one file that is being written: the offsets from First on.
type sealing struct {
	e    *Exporter
	meta File
	day  int64
	open bool // there is a temporary file

	tmp    string
	file   file
	buf    *bufio.Writer
	writer *parquet.GenericWriter[Row]
	sum    hash.Hash
	batch  []Row
}

// begin starts a file of the offsets from first on. Nothing is written before a row comes.
func (s *sealing) begin(partition int32, first int64) {
	s.meta = File{Partition: partition, First: first}
	s.batch, s.open, s.day = s.batch[:0], false, 0
	s.e.decode.unknown, s.e.decode.notEvents = 0, 0
}

// end is the first offset that is not in this file, whatever comes.
func (s *sealing) end() int64 { return (s.meta.First/s.e.opts.Span + 1) * s.e.opts.Span }

// dayOf is the day that a row belongs to. What is no event belongs to the day of what stands
// before it in its file, or else to that of its append time.
func (s *sealing) dayOf(r *Row) int64 {
	switch {
	case r.EventUS != 0:
		return day(r.EventUS)
	case s.meta.Rows > 0:
		return s.day
	}
	return day(max(0, r.Appended) * 1000)
}

// add decodes a record into the file. It returns false, and does nothing else, if the
// record belongs to another day, so to the next file.
func (s *sealing) add(r *kgo.Record) (bool, error) {
	before := *s.e.decode
	n := len(s.batch)
	s.batch = append(s.batch, Row{})
	row := &s.batch[n]
	s.e.decode.row(r, row)
	d := s.dayOf(row)
	if s.meta.Rows > 0 && d != s.day {
		s.batch = s.batch[:n]
		s.e.decode.unknown, s.e.decode.notEvents = before.unknown, before.notEvents
		return false, nil
	}
	s.day = d
	s.meta.Rows++
	if us := row.EventUS; us != 0 {
		if s.meta.MinUS == 0 || us < s.meta.MinUS {
			s.meta.MinUS = us
		}
		s.meta.MaxUS = max(s.meta.MaxUS, us)
	}
	if len(s.batch) < batchRows {
		return true, nil
	}
	return true, s.flush()
}

// flush gives the writer the rows that are waiting.
func (s *sealing) flush() error {
	if !s.open {
		if err := s.create(); err != nil {
			return err
		}
	}
	_, err := s.writer.Write(s.batch)
	clear(s.batch)
	s.batch = s.batch[:0]
	return err
}

func (s *sealing) create() (err error) {
	s.tmp = s.e.scratch()
	if s.file, err = s.e.disk.Create(s.tmp); err != nil {
		return err
	}
	s.open, s.meta.Bytes = true, 0
	s.sum = sha256.New()
	if s.buf == nil {
		s.buf = bufio.NewWriterSize(nil, 256<<10)
	}
	s.buf.Reset(summed{s})
	s.writer = newWriter(s.buf) // one that is reset writes other bytes than a new one
	return nil
}

// newWriter: the same rows give the same bytes, so nothing here may depend on the machine,
// the clock, or the build but for the module's versions.
func newWriter(buf *bufio.Writer) *parquet.GenericWriter[Row] {
	return parquet.NewGenericWriter[Row](buf,
		parquet.CreatedBy("waterclock", "1", "0"),
		parquet.KeyValueMetadata("waterclock.version", strconv.Itoa(manifestVersion)),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.PageBufferSize(64<<10),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, "trigger"), parquet.SplitBlockFilter(10, "user_id")),
	)
}

// summed writes to the file, and counts and hashes what it writes.
type summed struct{ s *sealing }

func (w summed) Write(b []byte) (int, error) {
	n, err := w.s.file.Write(b)
	w.s.sum.Write(b[:n])
	w.s.meta.Bytes += int64(n)
	return n, err
}

// seal ends the file at the offset next, durably under its own name. Its name follows from
// its offsets, so a file of that name has the same rows. ok is false if it has no rows.
func (s *sealing) seal(next int64) (meta File, ok bool, err error) {
	if s.meta.Rows == 0 {
		return File{}, false, nil
	}
	s.meta.Last, s.meta.Date = next-1, dayName(s.day)
	s.meta.Path = path.Join(eventsDir, "date="+s.meta.Date, partitionName(s.meta.Partition),
		fmt.Sprintf("%d-%d.parquet", s.meta.First, s.meta.Last))
	if err := s.close(); err != nil {
		return File{}, false, err
	}
	return s.meta, true, s.moveTo(s.meta.Path)
}

// toTail makes the file the tail of its partition. It may be empty.
func (s *sealing) toTail() error {
	s.meta.Path = path.Join(tailDir, partitionName(s.meta.Partition)+".parquet")
	if err := s.close(); err != nil {
		return err
	}
	return s.moveTo(s.meta.Path)
}

func partitionName(p int32) string { return fmt.Sprintf("p=%02d", p) }

// close finishes the temporary file durably.
func (s *sealing) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := errors.Join(s.writer.Close(), s.buf.Flush()); err != nil {
		return err
	}
	s.meta.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	s.meta.Unknown, s.meta.NotEvents = s.e.decode.unknown, s.e.decode.notEvents
	err := s.file.Sync()
	return errors.Join(err, s.file.Close())
}

func (s *sealing) moveTo(name string) error {
	to := filepath.Join(s.e.opts.Dir, filepath.FromSlash(name))
	if err := s.e.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := s.e.disk.Rename(s.tmp, to); err != nil {
		return err
	}
	s.open, s.writer = false, nil
	return s.e.disk.SyncDir(filepath.Dir(to))
}

// drop gives up what is not sealed.
func (s *sealing) drop() {
	if s.open {
		_ = s.file.Close()
		_ = s.e.disk.Remove(s.tmp)
	}
	s.open, s.batch, s.writer = false, s.batch[:0], nil
}
