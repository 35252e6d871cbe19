package analytics

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowsPerGroup bounds what the writer holds. DuckDB shares row groups among its threads.
const rowsPerGroup = 1 << 17

// output is a Parquet file that is being written: under a temporary name, hashed and counted.
type output[T any] struct {
	e     *Exporter
	bloom []string // columns with a bloom filter

	open   bool // there is a temporary file
	tmp    string
	file   file
	buf    *bufio.Writer
	pieces *pieces[T]
	writer *parquet.GenericWriter[T]
	sum    hash.Hash
	rows   int64
	bytes  int64
	digest string // SHA-256 of the finished file
}

// create begins a file.
func (o *output[T]) create() (err error) {
	o.tmp = o.e.scratch()
	if o.file, err = o.e.disk.Create(o.tmp); err != nil {
		return err
	}
	o.open, o.rows, o.bytes = true, 0, 0
	o.sum = sha256.New()
	if o.buf == nil {
		o.buf, o.pieces = bufio.NewWriterSize(nil, 256<<10), newPieces[T]()
	}
	o.buf.Reset(summed[T]{o})
	o.writer = newWriter[T](o.buf, o.bloom) // one that is reset writes other bytes than a new one
	return nil
}

// write adds rows to the file.
func (o *output[T]) write(rows []T) error {
	for len(rows) > 0 {
		n := o.pieces.next(rows[:min(int64(len(rows)), rowsPerGroup-o.rows%rowsPerGroup)])
		if _, err := o.writer.Write(rows[:n]); err != nil {
			return err
		}
		rows, o.rows = rows[n:], o.rows+int64(n)
	}
	return nil
}

// newWriter: the same rows give the same bytes, so nothing here may depend on the machine,
// the clock, or the build but for the module's versions.
func newWriter[T any](buf *bufio.Writer, bloom []string) *parquet.GenericWriter[T] {
	filters := make([]parquet.BloomFilterColumn, len(bloom))
	for i, column := range bloom {
		filters[i] = parquet.SplitBlockFilter(10, column)
	}
	return parquet.NewGenericWriter[T](buf,
		parquet.CreatedBy("waterclock", "1", "0"),
		parquet.KeyValueMetadata("waterclock.version", strconv.Itoa(manifestVersion)),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.PageBufferSize(64<<10),
		parquet.DataPageStatistics(false), // the column index has them, too
		parquet.BloomFilters(filters...),
	)
}

// summed writes to the file, and counts and hashes what it writes.
type summed[T any] struct{ o *output[T] }

func (w summed[T]) Write(b []byte) (int, error) {
	n, err := w.o.file.Write(b)
	w.o.sum.Write(b[:n])
	w.o.bytes += int64(n)
	return n, err
}

// finish makes the file durable, and put gives it its own name.
func (o *output[T]) finish(name string, put func(to string) error) (err error) {
	if err = o.writer.Close(); err == nil { // else the buffer has the same error
		err = o.buf.Flush()
	}
	if err != nil {
		return err
	}
	err = o.file.Sync()
	if err := errors.Join(err, o.file.Close()); err != nil {
		return err
	}
	if err := o.e.makeDir(path.Dir(name)); err != nil {
		return err
	}
	to := filepath.Join(o.e.opts.Dir, filepath.FromSlash(name))
	o.digest = hex.EncodeToString(o.sum.Sum(nil))
	if err := put(to); err != nil {
		return err
	}
	o.open, o.writer = false, nil
	return o.e.disk.SyncDir(filepath.Dir(to))
}

// replace puts the file in the place of an older one.
func (o *output[T]) replace(to string) error { return o.e.disk.Rename(o.tmp, to) }

// keepFirst leaves the file of that name if there is one with as many rows: another exporter
// was first, and a manifest may name it. Its rows are the same, but its bytes are not if
// another build wrote it.
func (o *output[T]) keepFirst(to string, rows int64) error {
	err := o.e.disk.Link(o.tmp, to)
	if errors.Is(err, fs.ErrExist) {
		var same bool
		if same, err = o.adopt(to, rows); err == nil && !same {
			return o.replace(to)
		}
	}
	return errors.Join(err, o.e.disk.Remove(o.tmp))
}

// adopt takes the size and the SHA-256 of a file that is there. It returns false if that is no
// whole file of so many rows.
func (o *output[T]) adopt(name string, rows int64) (bool, error) {
	f, err := os.Open(name) //nolint:gosec // a file of the export
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	p, err := openParquet(f)
	if err != nil || p.NumRows() != rows {
		return false, nil
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, p.Size()))
	o.bytes, o.digest = n, hex.EncodeToString(sum.Sum(nil))
	return true, err
}

// drop gives up what is not finished.
func (o *output[T]) drop() {
	if o.open {
		_ = o.file.Close()
		_ = o.e.disk.Remove(o.tmp)
	}
	o.open, o.writer = false, nil
}
