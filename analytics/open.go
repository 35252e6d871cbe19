package analytics

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// Reader reads an export. It needs no lock: exporters may go on meanwhile.
type Reader struct {
	dir   string
	chain *chain
}

// Open reads the manifests of a directory. A directory without any has no export: nil.
func Open(dir string) (*Reader, error) {
	c, err := load(dir)
	if err != nil || c.last == nil {
		return nil, err
	}
	return &Reader{dir, c}, nil
}

// Partitions is how many partitions the topic has.
func (r *Reader) Partitions() int32 { return int32(r.chain.last.Partitions) } //nolint:gosec // a count of partitions

// Manifest is the number of the newest one that was read.
func (r *Reader) Manifest() int { return r.chain.last.N }

// Files are the sealed files of a partition, in the order of their offsets.
func (r *Reader) Files(p int32) (out []File) {
	for i := range r.chain.files {
		if r.chain.files[i].Partition == p {
			out = append(out, r.chain.files[i])
		}
	}
	return out
}

// Start is the first offset of a partition in the export: what the log had when the export began.
func (r *Reader) Start(p int32) int64 { return r.chain.starts[p] }

// Gaps are those that were accepted: events that had expired before they were exported.
func (r *Reader) Gaps() []Gap { return r.chain.gaps }

// HasTail reports whether a partition has the file of its newest events. Every export writes one,
// if only an empty one, so it is missing if somebody removed it or the first export did not end.
func (r *Reader) HasTail(p int32) bool {
	_, err := os.Stat(filepath.Join(r.dir, tailDir, partitionName(p)+".parquet"))
	return !gone(err)
}

// readRows are decoded at a time.
const readRows = 1024

// Selection says what of a partition is read.
type Selection struct {
	Files  func(*File) bool // nil: all sealed files
	NoTail bool
}

// Read calls visit with the rows of a partition, each once, in the order of the log: those of
// sealed files, and those of the tail. T has the columns that are read, as Row spells them.
// The rows are valid until visit returns.
//
// The tail is opened before the manifests are read: it begins at or before what they say is
// sealed, so no row is between the two, whatever exporters do meanwhile.
func Read[T any](r *Reader, p int32, s Selection, visit func([]T) error) error {
	tail, err := os.Open(filepath.Join(r.dir, tailDir, partitionName(p)+".parquet"))
	if err != nil && !gone(err) {
		return err
	}
	if tail != nil {
		defer func() { _ = tail.Close() }()
	}
	if err := r.chain.more(r.dir); err != nil {
		return err
	}
	for _, f := range r.Files(p) {
		if s.Files == nil || s.Files(&f) {
			if err := readSealed(r.dir, &f, visit); err != nil {
				return err
			}
		}
	}
	if tail == nil || s.NoTail {
		return nil
	}
	file, err := openParquet(tail)
	if err != nil {
		return err
	}
	skip, err := rowsBelow(file, r.chain.next[p])
	if err != nil {
		return damaged(tail.Name(), "cannot be read: %v", err)
	}
	return readFrom(file, skip, visit)
}

func readSealed[T any](dir string, f *File, visit func([]T) error) error {
	name := filepath.Join(dir, filepath.FromSlash(f.Path))
	opened, err := os.Open(name) //nolint:gosec // a file of the export
	if gone(err) {
		return damaged(name, "is missing, and manifests name it")
	}
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	file, err := openParquet(opened)
	if err != nil {
		return err
	}
	if file.NumRows() != f.Rows {
		return damaged(name, "has %d rows, and its manifest says %d", file.NumRows(), f.Rows)
	}
	if err := readFrom(file, 0, visit); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

func openParquet(f *os.File) (*parquet.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, damaged(f.Name(), "cannot be read: %v", err)
	}
	return file, nil
}

type offsetRow struct {
	Offset int64 `parquet:"log_offset"`
}

// rowsBelow counts the rows before an offset.
func rowsBelow(file *parquet.File, offset int64) (n int64, err error) {
	err = readFrom(file, 0, func(rows []offsetRow) error {
		for i := range rows {
			if rows[i].Offset < offset {
				n++
			}
		}
		return nil
	})
	return n, err
}

func readFrom[T any](file *parquet.File, skip int64, visit func([]T) error) error {
	if skip >= file.NumRows() {
		return nil
	}
	rows := parquet.NewGenericReader[T](file)
	defer func() { _ = rows.Close() }()
	if err := rows.SeekToRow(skip); err != nil {
		return err
	}
	buf := make([]T, readRows)
	for {
		clear(buf)
		n, err := rows.Read(buf)
		if n > 0 {
			if err := visit(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
