package wheel

import "math/bits"

// chunkLen makes a chunk just under 1 KiB: small enough that 1,172 nearly
// empty buckets cost little, large enough that growing is rare.
const chunkLen = 59

// chunk holds entries of one bucket in the order they were added. n and off
// share a cache line.
type chunk struct {
	n    uint8
	off  [chunkLen]uint8 // ms within the bucket
	next *chunk          // in the bucket's chain, or in the free list
	ref  [chunkLen]string
}

// ring maps buckets to chains of chunks. A bucket's slot is its number modulo
// the ring's size; the window is never longer than the ring.
type ring struct {
	mask  int64
	slots []slot
	used  []uint64 // one bit per slot: has entries
	free  *chunk
	frees int // chunks in free
	keep  int // most of them to keep
}

// slot is one bucket's chain.
type slot struct {
	head, tail *chunk // nil: no entries
	n          uint32
	earliest   uint8 // lowest off
}

func (r *ring) init(buckets int64, maxEntries int) {
	size := ceilPow2(buckets + 1)
	r.mask = size - 1
	r.slots = make([]slot, size)
	r.used = make([]uint64, (size+63)/64)
	r.keep = maxEntries/chunkLen + int(min(buckets, int64(maxEntries)))
}

func (r *ring) add(bucket int64, off uint8, ref string) {
	i := bucket & r.mask
	s := &r.slots[i]
	c := s.tail
	if c == nil {
		r.used[i>>6] |= 1 << (i & 63)
		c = r.take()
		s.head, s.tail, s.earliest = c, c, off
	}
	if c.n == chunkLen {
		c.next = r.take()
		c = c.next
		s.tail = c
	}
	c.off[c.n] = off
	c.ref[c.n] = ref
	c.n++
	s.n++
	s.earliest = min(s.earliest, off)
}

// take finds an empty chunk.
func (r *ring) take() *chunk {
	c := r.free
	if c == nil {
		return new(chunk)
	}
	r.free, c.next = c.next, nil
	r.frees--
	return c
}

// release empties a chunk for reuse; its strings must not be kept alive by it.
func (r *ring) release(c *chunk) {
	if r.frees >= r.keep {
		return
	}
	clear(c.ref[:c.n])
	c.n, c.next = 0, r.free
	r.free = c
	r.frees++
}

// seek finds the first bucket in [from, to] that has entries, else to+1.
func (r *ring) seek(from, to int64) int64 {
	for b := from; b <= to; {
		i := b & r.mask
		if word := r.used[i>>6] >> (i & 63); word != 0 {
			return min(b+int64(bits.TrailingZeros64(word)), to+1)
		}
		b += min(64-(i&63), r.mask+1-i)
	}
	return to + 1
}

// earliest is the lowest ms within a bucket that has entries.
func (r *ring) earliest(bucket int64) uint8 { return r.slots[bucket&r.mask].earliest }

// open moves a bucket's entries into o, sorted by (ms, ref), and frees its
// chunks.
func (r *ring) open(bucket int64, o *opened) {
	i := bucket & r.mask
	head := r.slots[i].head
	r.slots[i] = slot{}
	r.used[i>>6] &^= 1 << (i & 63)

	var at [bucketMs + 1]int32 // at[ms+1]: entries of ms, then where the next of ms goes
	for c := head; c != nil; c = c.next {
		for _, off := range c.off[:c.n] {
			at[int(off)+1]++
		}
	}
	for ms := range bucketMs {
		at[ms+1] += at[ms]
	}
	o.reset(bucket<<bucketBits, &at, int(at[bucketMs]))
	for c := head; c != nil; {
		for k, off := range c.off[:c.n] {
			o.refs[at[off]] = c.ref[k]
			at[off]++
		}
		next := c.next
		r.release(c)
		c = next
	}
	o.sort()
}

// opened is the bucket under the hand.
type opened struct {
	refs []string // by (ms, ref); those before pos are used up and cleared
	ends [bucketMs]int32
	pos  int
	base int64 // first ms of the bucket
	ms   int   // of refs[pos]
	due  int64 // base + ms

	touched byte // see touch
}

// keepOpened is how many slots are kept for reuse whatever the bucket needs;
// above it, a slice four times too large is given back.
const keepOpened = 1 << 14

func (o *opened) reset(base int64, starts *[bucketMs + 1]int32, n int) {
	o.base, o.pos, o.ms = base, 0, 0
	copy(o.ends[:], starts[1:])
	if c := cap(o.refs); c < n || c > keepOpened && c/4 > n {
		o.refs = make([]string, n, n+n/4)
	}
	o.refs = o.refs[:n]
	o.seek()
}

// sort sorts each millisecond's run. The bytes of refs lie anywhere in memory:
// fetching those of a few runs first, all at once, halves the time, since a
// sort would wait for each.
func (o *opened) sort() {
	start, fetched := int32(0), int32(0)
	for _, end := range o.ends {
		if end > fetched {
			fetched = max(end, min(start+fetchAhead, int32(len(o.refs))))
			o.touched ^= touch(o.refs[start:fetched])
		}
		if end-start > 1 {
			sortRefs(o.refs[start:end])
		}
		start = end
	}
}

// fetchAhead refs fit into a core's second cache.
const fetchAhead = 512

// touch reads a byte of each ref; the result keeps the reads from being left
// out.
func touch(refs []string) (x byte) {
	for _, ref := range refs {
		if ref != "" {
			x ^= ref[0]
		}
	}
	return x
}

// seek moves ms to that of refs[pos].
func (o *opened) seek() {
	for o.ms < bucketMs-1 && int(o.ends[o.ms]) <= o.pos {
		o.ms++
	}
	o.due = o.base + int64(o.ms)
}

func (o *opened) peek() entry { return entry{o.due, o.refs[o.pos]} }

func (o *opened) pop() entry {
	e := o.peek()
	o.refs[o.pos] = ""
	o.pos++
	if int(o.ends[o.ms]) <= o.pos {
		o.seek()
	}
	return e
}
