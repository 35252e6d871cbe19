package statestore

import (
	"hash/maphash"
	"math/bits"

	"github.com/waterclock/waterclock/trigger"
)

// filter answers from memory whether a key is known. "No" is certain; "yes" means that the store
// must be read. It is a cuckoo filter and not a Bloom filter, because one-shot triggers come and
// go: without deletion it would be full within the hour. It grows by generations, each twice as
// large as the one before. Opening the store rebuilds it as one generation.
type filter struct {
	seed maphash.Seed
	gens []*cuckoo // newest last; keys are added only to the newest
}

// newFilter has room for n keys before it grows.
func newFilter(n int) *filter {
	return &filter{seed: maphash.MakeSeed(), gens: []*cuckoo{newCuckoo(n)}}
}

func (f *filter) hash(key trigger.Key) uint64 { return maphash.String(f.seed, string(key)) }

func (f *filter) has(h uint64) bool {
	for _, g := range f.gens {
		if g.has(h) {
			return true
		}
	}
	return false
}

// add must be called once for each time a key becomes known.
func (f *filter) add(h uint64) {
	last := f.gens[len(f.gens)-1]
	if last.n >= last.room {
		last = newCuckoo(2 * last.room)
		f.gens = append(f.gens, last)
	}
	last.add(h)
}

// remove undoes one add. If two generations may have the key, it removes nothing, because removal
// from the wrong one would make another key unknown. The key then stays as a false positive.
func (f *filter) remove(h uint64) {
	var in *cuckoo
	for _, g := range f.gens {
		if !g.has(h) {
			continue
		}
		if in != nil {
			return
		}
		in = g
	}
	if in == nil {
		return
	}
	in.remove(h)
	if len(f.gens) > 1 && f.gens[0].n == 0 {
		f.gens = f.gens[1:]
	}
}

func (f *filter) bytes() (n int64) {
	for _, g := range f.gens {
		n += int64(len(g.buckets)) * 8
	}
	return n
}

// cuckoo is a filter of fixed size with buckets of four 16-bit fingerprints. Each fingerprint is
// in one of two buckets; either bucket and the fingerprint give the other (Fan et al., CoNEXT
// 2014). One lookup in 8,000 is a false positive.
type cuckoo struct {
	mask    uint64
	buckets []uint64
	n, room int
	rng     uint64
	stash   []homeless // fingerprints without a bucket; nearly always empty
}

// homeless is a fingerprint that found no free lane after too many swaps.
type homeless struct {
	fp uint64
	at uint64 // one of its two buckets
}

const (
	lanes    = 0x0001_0001_0001_0001
	laneTops = 0x8000_8000_8000_8000
	maxKicks = 256

	minCuckoo = 1 << 10
)

// newCuckoo makes a filter that is at most 90 % full with n keys. Above 95 %, adding slows down.
func newCuckoo(n int) *cuckoo {
	buckets := 1 << bits.Len(uint(max(n, minCuckoo)*10/9/4))
	return &cuckoo{mask: uint64(buckets - 1), buckets: make([]uint64, buckets), room: buckets * 4 * 9 / 10, rng: 1}
}

// slot returns a key's fingerprint and first bucket. A fingerprint is never 0.
func (c *cuckoo) slot(h uint64) (fp, at uint64) {
	fp = h >> 48
	if fp == 0 {
		fp = 1
	}
	return fp, h & c.mask
}

// other returns a fingerprint's other bucket.
func (c *cuckoo) other(fp, at uint64) uint64 {
	return (at ^ (fp*0x9e3779b97f4a7c15)>>32) & c.mask
}

// laneOf marks the top bit of the lowest lane of b that equals fp. Marks in higher lanes may be
// wrong.
func laneOf(b, fp uint64) uint64 {
	x := b ^ fp*lanes
	return (x - lanes) & ^x & laneTops
}

func (c *cuckoo) has(h uint64) bool {
	fp, at := c.slot(h)
	if laneOf(c.buckets[at], fp) != 0 || laneOf(c.buckets[c.other(fp, at)], fp) != 0 {
		return true
	}
	return len(c.stash) > 0 && c.stashed(fp, at) >= 0
}

func (c *cuckoo) stashed(fp, at uint64) int {
	for i, s := range c.stash {
		if s.fp == fp && (s.at == at || s.at == c.other(fp, at)) {
			return i
		}
	}
	return -1
}

func (c *cuckoo) add(h uint64) {
	c.n++
	fp, at := c.slot(h)
	if c.put(at, fp) || c.put(c.other(fp, at), fp) {
		return
	}
	for range maxKicks {
		fp = c.swap(at, fp)
		at = c.other(fp, at)
		if c.put(at, fp) {
			return
		}
	}
	c.stash = append(c.stash, homeless{fp, at})
}

// put fills a free lane of a bucket.
func (c *cuckoo) put(at, fp uint64) bool {
	b := c.buckets[at]
	free := laneOf(b, 0)
	if free == 0 {
		return false
	}
	lane := bits.TrailingZeros64(free) &^ 15
	c.buckets[at] = b | fp<<lane
	return true
}

// swap puts fp into a random lane of a full bucket and returns the fingerprint that it replaced.
func (c *cuckoo) swap(at, fp uint64) (out uint64) {
	c.rng ^= c.rng << 13
	c.rng ^= c.rng >> 7
	c.rng ^= c.rng << 17
	lane := (c.rng & 3) * 16
	b := c.buckets[at]
	c.buckets[at] = b&^(0xffff<<lane) | fp<<lane
	return b >> lane & 0xffff
}

func (c *cuckoo) remove(h uint64) {
	fp, at := c.slot(h)
	if c.clear(at, fp) || c.clear(c.other(fp, at), fp) {
		c.n--
		return
	}
	if i := c.stashed(fp, at); i >= 0 {
		c.stash = append(c.stash[:i], c.stash[i+1:]...)
		c.n--
	}
}

func (c *cuckoo) clear(at, fp uint64) bool {
	found := laneOf(c.buckets[at], fp)
	if found == 0 {
		return false
	}
	c.buckets[at] &^= 0xffff << (bits.TrailingZeros64(found) &^ 15)
	return true
}
