// Package decompress bounds what fetched batches of records take in memory. A
// batch of a few KB may decompress to GBs, by mistake or on purpose, and kgo's
// own bound, 1 GiB for each batch, is more than a container has.
//
// # What is bounded
//
//	a batch      Options.Batch: its bytes decompressed, and what its records and headers take as Go values
//	a fetch      Options.Batch for all batches that a client (Reader) has decompressed and still
//	             uses; one may always be. Lower lowers it
//	others       Shared: four times Options.Batch for all clients of a process that are not Readers. Lower
//	             lowers it
//	a Bound      four times Options.Batch for those above 1 MiB. Lower lowers it
//	the process  one batch above 1 MiB is decompressed at a time, whoever reads it, in memory that all share:
//	             32 MiB, and more only while a larger batch comes
//
// A batch beyond the first bound is kgo.ErrMaxDecompress: no try will help. One
// beyond the others is ErrLater: kgo returns what it has, and fetches again.
//
// # What it relies on
//
// The codecs are kgo's. A client's option WithDecompressor gives back the ones
// that it has bounded with MaxDecompressBatchBytes, so a client without brokers
// is made for them. TestCodecs fails if that is no longer so.
package decompress

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// DefaultBatch is what one batch may take.
const DefaultBatch = 64 << 20

// small batches are nearly all there are: they pass without a look at the
// process.
const small = 1 << 20

// medium is the room in which larger batches are tried first: few need more.
const medium = 32 << 20

// window is what a zstd frame may ask for however little is in it: Java's encoder asks
// for 2 MiB, others for 8 up to level 19.
const window = 8 << 20

// shares is how many of the largest batches the process may hold.
const shares = 4

// ErrLater says that other batches take the memory now.
var ErrLater = errors.New("too much is decompressed already; this batch must wait")

// Bound is one for a process.
type Bound struct {
	batch int
	fetch int // of a Reader
	most  int // of the process, of batches that are not small
	small kgo.Decompressor
	zstd  func() (kgo.Decompressor, error)   // of small batches in large windows
	large []func() (kgo.Decompressor, error) // tried one after the other, each in a larger room

	mu   sync.Mutex
	held int // by batches that are not small
}

// New makes a bound of so many bytes for a batch; 0 means DefaultBatch.
func New(batch int) (*Bound, error) {
	if batch == 0 {
		batch = DefaultBatch
	}
	b := &Bound{batch: batch, fetch: batch, most: shares * batch}
	var err error
	if b.small, err = codecs(min(small, batch)); err != nil {
		return nil, err
	}
	// Few processes meet what needs the others, and a client for each would be made at every start.
	b.zstd = lazily(window)
	sizes := []int{batch}
	if batch > medium {
		sizes = []int{medium, batch}
	}
	for _, size := range sizes {
		// decompress holds batch against what comes out.
		b.large = append(b.large, lazily(max(size, window), kgo.WithPools(room(max(size, window)+slack))))
	}
	return b, nil
}

// Lower lowers what a Reader and the process may hold, so that they fit into little memory; 0 leaves it.
// One batch may always be. It is called before the first Reader is made.
func (b *Bound) Lower(fetch, process int) {
	if fetch > 0 {
		b.fetch = min(b.fetch, fetch)
	}
	if process > 0 {
		b.most = min(b.most, process)
	}
}

// lazily makes codecs when they are first needed.
func lazily(most int, opts ...kgo.Opt) func() (kgo.Decompressor, error) {
	return sync.OnceValues(func() (kgo.Decompressor, error) { return codecs(most, opts...) })
}

// codecs are kgo's, bounded.
func codecs(most int, opts ...kgo.Opt) (kgo.Decompressor, error) {
	cl, err := kgo.NewClient(append(opts, kgo.MaxDecompressBatchBytes(most), kgo.DisableClientMetrics())...)
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	defer cl.Close()
	d, ok := cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, errors.New("decompress: the client does not tell its decompressor")
	}
	return d, nil
}

// Batch is what one batch may take.
func (b *Bound) Batch() int { return b.batch }

// Decompress implements kgo.Decompressor for clients that read little: it
// bounds each batch by itself.
func (b *Bound) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, _, err := b.decompress(src, codec)
	return out, err
}

// decompress also returns what the records take, decoded.
func (b *Bound) decompress(src []byte, codec kgo.CompressionCodecType) (out []byte, takes int, err error) {
	if codec == kgo.CodecNone {
		return src, 0, nil
	}
	if out, err = b.decompressSmall(src, codec); errors.Is(err, kgo.ErrMaxDecompress) && b.batch > small {
		out, err = b.decompressLarge(src, codec)
	}
	if err != nil {
		return nil, 0, err
	}
	if takes = len(out) + decoded(out); takes > b.batch {
		return nil, 0, kgo.ErrMaxDecompress
	}
	return out, takes, nil
}

func (b *Bound) decompressSmall(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := b.small.Decompress(src, codec)
	if !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return out, err
	}
	windowed, err := b.zstd()
	if err != nil {
		return nil, err
	}
	if out, err = windowed.Decompress(src, codec); errors.Is(err, zstd.ErrWindowSizeExceeded) || len(out) > small {
		return nil, kgo.ErrMaxDecompress
	}
	return out, err
}

// decompressLarge works in memory that is used again: gzip and lz4 do not say
// how long their output is, and a buffer that grows takes three times as much.
func (b *Bound) decompressLarge(src []byte, codec kgo.CompressionCodecType) (out []byte, err error) {
	workshop.Lock()
	defer workshop.Unlock()
	defer workshop.close()
	for _, codecs := range b.large {
		var large kgo.Decompressor
		if large, err = codecs(); err != nil {
			return nil, err
		}
		out, err = large.Decompress(src, codec)
		switch {
		case err == nil:
			return bytes.Clone(out), nil
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			err = kgo.ErrMaxDecompress
		case !errors.Is(err, kgo.ErrMaxDecompress):
			return nil, err
		}
	}
	return nil, err
}

// workshop is where this process decompresses one large batch.
var workshop shop

// shop is memory that is there while large batches come, and for keptFor after them. (A sync.Pool has one for
// each processor, and loses them to collections while they are needed.)
type shop struct {
	sync.Mutex
	buf  []byte
	uses int
}

const keptFor = 5 * time.Second

// open is memory of so many bytes. A buffer that is too small is dropped.
func (w *shop) open(size int) []byte {
	if cap(w.buf) < size {
		w.buf = nil // first, so that the collector may take it
		w.buf = make([]byte, size)
	}
	return w.buf[:0:size]
}

// close ends a use. Each has a timer of its own: one that belongs to the bubble of a test must
// not be set from outside.
func (w *shop) close() {
	w.uses++
	n := w.uses
	time.AfterFunc(keptFor, func() {
		w.Lock()
		defer w.Unlock()
		if w.uses == n {
			w.buf = nil
		}
	})
}

// room is how much of it a decompressor uses. It implements kgo.PoolDecompressBytes.
type room int

func (r room) GetDecompressBytes([]byte, kgo.CompressionCodecType) []byte {
	return workshop.open(int(r))
}
func (room) PutDecompressBytes([]byte) {}

// slack is what a bytes.Buffer wants free before it reads on.
const slack = 4 << 10

// take reserves n bytes of the process; a batch that finds nothing reserved
// may always have them.
func (b *Bound) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held > 0 && b.held+n > b.most {
		return false
	}
	b.held += n
	return true
}

func (b *Bound) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= n
}

// Reader is the bound for one client that reads much. Its records must not be
// used beyond the next Begin.
type Reader struct {
	bound *Bound
	pause time.Duration

	mu          sync.Mutex
	used, ahead share // of what was polled; and of what is fetched since
}

// share is what batches take: all of them, and of those not small.
type share struct{ all, large int }

// Reader makes one; Close it with its client.
func (b *Bound) Reader() *Reader { return &Reader{bound: b, pause: 5 * time.Millisecond} }

// Begin says that records polled before are not in use any more.
func (r *Reader) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bound.give(r.used.large)
	r.used = share{}
}

// End says that a poll has returned: what is fetched from here on is fetched
// ahead.
func (r *Reader) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used.all += r.ahead.all
	r.used.large += r.ahead.large
	r.ahead = share{}
}

// Close gives back what the client still held.
func (r *Reader) Close() { r.End(); r.Begin() }

// Decompress implements kgo.Decompressor.
func (r *Reader) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil
	}
	if !r.full() {
		out, takes, err := r.bound.decompress(src, codec)
		if err != nil || r.reserve(takes) {
			return out, err
		}
	}
	time.Sleep(r.pause) // kgo would fetch again at once
	return nil, ErrLater
}

// full says that so much is held that the next batch may not fit: to know, it
// would have to be decompressed for nothing.
func (r *Reader) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used.all+r.ahead.all > r.bound.fetch/2
}

func (r *Reader) reserve(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.used.all + r.ahead.all; held > 0 && held+n > r.bound.fetch {
		return false
	}
	if n > small {
		if !r.bound.take(n) {
			return false
		}
		r.ahead.large += n
	}
	r.ahead.all += n
	return true
}
