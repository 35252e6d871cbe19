package analytics

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// The footer of a tail says what it covers: all committed records from one offset on, below
// another one. An older build wrote tails that do not say so.
const (
	tailFrom = "waterclock.from"
	tailTo   = "waterclock.to"
)

// tail is what the tail of a partition covers, and its file.
type tail struct {
	from, to int64
	file     fs.FileInfo
}

func (e *Exporter) tailName(p int32) string {
	return filepath.Join(e.opts.Dir, tailDir, partitionName(p)+".parquet")
}

// exported is the first offset of a partition that is neither in sealed files nor in the tail,
// if the log begins at start.
func (e *Exporter) exported(c *chain, p int32, start int64) (int64, error) {
	next := c.next[p]
	if start <= next {
		return next, nil
	}
	t, err := e.tailOf(p)
	if err != nil || t.from > next {
		return next, err
	}
	return max(next, t.to), nil
}

// tailOf is the tail as it is now. One that is not there, or that is no whole file, covers
// nothing.
func (e *Exporter) tailOf(p int32) (t tail, err error) {
	f, err := os.Open(e.tailName(p))
	if gone(err) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	defer func() { _ = f.Close() }()
	if t.file, err = f.Stat(); err != nil {
		return t, err
	}
	if file, err := openParquet(f); err == nil {
		t.from, t.to = coveredBy(file)
	}
	return t, nil
}

// coveredBy is what the footer says.
func coveredBy(file *parquet.File) (from, to int64) {
	first, _ := file.Lookup(tailFrom)
	next, _ := file.Lookup(tailTo)
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(next, 10, 64)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return from, to
}

// carry takes in what the tail has of the offsets from the walk's next on, below to: the log
// has lost it.
func (w *walk) carry(to int64) error {
	f, err := os.Open(w.tailName(w.p))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	file, err := openParquet(f)
	if err != nil {
		return err
	}
	if from, end := coveredBy(file); from > w.next || end < to {
		return fmt.Errorf("another exporter has replaced the tail of partition %d meanwhile", w.p)
	}
	skip, err := rowsBelow(file, w.next)
	if err != nil {
		return damaged(f.Name(), "cannot be read: %v", err)
	}
	err = readFrom(file, skip, func(rows []Row) error {
		for i := range rows {
			r := &rows[i]
			if r.Offset >= to {
				return nil
			}
			if err := w.sealBelow(r.Offset); err != nil {
				return err
			}
			if err := w.add(r.Offset, func() (bool, error) { return w.file.addRow(r) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.sealBelow(to)
}

// isFresh says that this exporter has written the tail of a partition, and that nothing has come
// since. Another exporter may have written the same one meanwhile.
func (e *Exporter) isFresh(p int32, from, end int64) bool {
	was, ok := e.tails[p]
	if !ok || was.from != from || was.to != end {
		return false
	}
	info, err := os.Stat(e.tailName(p))
	if err != nil {
		return false
	}
	if os.SameFile(info, was.file) {
		return true
	}
	is, err := e.tailOf(p)
	if err != nil || is.from != from || is.to != end {
		return false
	}
	e.tails[p] = is
	return true
}
