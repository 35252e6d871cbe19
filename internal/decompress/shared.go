package decompress

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Shared is the bound for clients that nobody brackets with Begin and End: those
// of tails, histories and tools. All of a process share one. What a batch takes
// counts until the garbage collector has its bytes, which its records point
// into. So whatever such clients buffer, it is bounded, and no caller has to
// help.
type Shared struct {
	bound   *Bound
	most    atomic.Int64
	held    atomic.Int64
	maxWait time.Duration
	pause   time.Duration
}

// sharedMaxWait is how long a batch waits for room before the client hears
// ErrLater: batches of the same fetch are given back only with it.
const sharedMaxWait = time.Second

// leastShared is what is too small to be counted: a client has at most some
// hundred batches of a fetch.
const leastShared = 16 << 10

// Shared makes one; it holds as much as the process may hold of large batches.
func (b *Bound) Shared() *Shared {
	s := &Shared{bound: b, maxWait: sharedMaxWait, pause: 100 * time.Millisecond}
	s.most.Store(int64(shares * b.batch))
	return s
}

// Lower lowers what is held. A batch may come until half of it is.
func (s *Shared) Lower(most int64) { s.most.Store(min(s.most.Load(), most)) }

// full says that so much is held that the next batch may not fit.
func (s *Shared) full() bool {
	most := s.most.Load()
	return s.held.Load() > max(most-int64(s.bound.batch), most/2)
}

// Decompress implements kgo.Decompressor.
func (s *Shared) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil
	}
	for begun := time.Now(); s.full(); time.Sleep(s.pause) {
		if time.Since(begun) > s.maxWait {
			return nil, ErrLater
		}
		runtime.GC() // what was held may be garbage, and nobody else knows that we wait for it
	}
	out, takes, err := s.bound.decompress(src, codec)
	if err != nil || takes < leastShared || len(out) == 0 {
		return out, err
	}
	s.held.Add(int64(takes))
	runtime.AddCleanup(&out[0], func(n int64) { s.held.Add(-n) }, int64(takes))
	return out, nil
}
