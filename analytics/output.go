package analytics

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
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
	writer *parquet.GenericWriter[T]
	sum    hash.Hash
	bytes  int64
}

// create begins a file.
func (o *output[T]) create() (err error) {
	o.tmp = o.e.scratch()
	if o.file, err = o.e.disk.Create(o.tmp); err != nil {
		return err
	}
	o.open, o.bytes = true, 0
	o.sum = sha256.New()
	if o.buf == nil {
		o.buf = bufio.NewWriterSize(nil, 256<<10)
	}
	o.buf.Reset(summed[T]{o})
	o.writer = newWriter[T](o.buf, o.bloom) // one that is reset writes other bytes than a new one
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

// finish makes the file durable under its own name, and returns its SHA-256.
func (o *output[T]) finish(name string) (digest string, err error) {
	if err = o.writer.Close(); err == nil { // else the buffer has the same error
		err = o.buf.Flush()
	}
	if err != nil {
		return "", err
	}
	err = o.file.Sync()
	if err := errors.Join(err, o.file.Close()); err != nil {
		return "", err
	}
	if err := o.e.makeDir(path.Dir(name)); err != nil {
		return "", err
	}
	to := filepath.Join(o.e.opts.Dir, filepath.FromSlash(name))
	if err := o.e.disk.Rename(o.tmp, to); err != nil {
		return "", err
	}
	o.open, o.writer = false, nil
	return hex.EncodeToString(o.sum.Sum(nil)), o.e.disk.SyncDir(filepath.Dir(to))
}

// drop gives up what is not finished.
func (o *output[T]) drop() {
	if o.open {
		_ = o.file.Close()
		_ = o.e.disk.Remove(o.tmp)
	}
	o.open, o.writer = false, nil
}
