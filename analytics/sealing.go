package analytics

import (
	"fmt"
	"path"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Names in the directory.
const (
	eventsDir   = "events"
	tailDir     = "tail"
	snapshotDir = "snapshots"
	manifestDir = "manifest"
	tmpDir      = "tmp"
	lockFile    = "lock" // in a directory of tmp
)

// batchRows are decoded before the writer gets them.
const batchRows = 512

// sealing is the one file that is being written: the offsets from First on. A batch is written
// while the next one is decoded.
type sealing struct {
	output[Row]

	meta    File
	day     int64
	batch   []Row
	spare   []Row      // the batch that is being written, or was
	writing chan error // how that ends; nil: nothing is being written
}

// begin starts a file of the offsets from first on. Nothing is written before a row comes.
func (s *sealing) begin(partition int32, first int64) {
	s.meta = File{Partition: partition, First: first}
	s.batch, s.open, s.day = s.batch[:0], false, 0
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
	n := len(s.batch)
	s.batch = append(s.batch, Row{})
	s.e.decode.row(r, &s.batch[n])
	return s.added()
}

// addRow adds a row of another file, as add does. It keeps nothing of the row.
func (s *sealing) addRow(r *Row) (bool, error) {
	s.batch = append(s.batch, r.clone())
	return s.added()
}

// added takes in the last row of the batch, or takes it away.
func (s *sealing) added() (bool, error) {
	n := len(s.batch) - 1
	row := &s.batch[n]
	d := s.dayOf(row)
	if s.meta.Rows > 0 && d != s.day {
		s.batch = s.batch[:n]
		return false, nil
	}
	s.day = d
	s.meta.count(row)
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

// flush gives the writer the rows that are waiting. How that ends, the next flush or close says.
func (s *sealing) flush() error {
	if err := s.written(); err != nil {
		return err
	}
	if !s.open {
		if err := s.create(); err != nil {
			return err
		}
	}
	rows, ended := s.batch, make(chan error, 1)
	s.batch, s.spare, s.writing = s.spare[:0], rows, ended
	go func() {
		err := s.write(rows)
		clear(rows)
		ended <- err
	}()
	return nil
}

// flushed gives the writer the rows that are waiting, and waits until they are written.
func (s *sealing) flushed() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.written()
}

// written waits until nothing is being written.
func (s *sealing) written() (err error) {
	if s.writing != nil {
		err = <-s.writing
	}
	s.writing = nil
	return err
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
	err = s.close(func(to string) error { return s.keepFirst(to, s.meta.Rows) })
	return s.meta, err == nil, err
}

// toTail makes the file the tail of its partition, which covers the offsets below next. It may be
// empty.
func (s *sealing) toTail(next int64) error {
	if err := s.flushed(); err != nil {
		return err
	}
	s.writer.SetKeyValueMetadata(tailFrom, strconv.FormatInt(s.meta.First, 10))
	s.writer.SetKeyValueMetadata(tailTo, strconv.FormatInt(next, 10))
	s.meta.Path = path.Join(tailDir, partitionName(s.meta.Partition)+".parquet")
	return s.close(s.replace)
}

func partitionName(p int32) string { return fmt.Sprintf("p=%02d", p) }

// close makes the file durable under its name.
func (s *sealing) close(put func(to string) error) error {
	if err := s.flushed(); err != nil {
		return err
	}
	err := s.finish(s.meta.Path, put)
	s.meta.SHA256, s.meta.Bytes = s.digest, s.bytes
	return err
}

// drop gives up what is not sealed.
func (s *sealing) drop() {
	_ = s.written()
	s.output.drop()
	s.batch = s.batch[:0]
}
