package calendar

import (
	"hash/fnv"
	"io"
	"math/bits"
	"time"
)

// Jitter spreads occurrences that share an instant over [0, window), in whole
// milliseconds. The offset is a fixed function of the trigger's key and the
// occurrence's ID, so a replay, another replica and the next release agree on
// it: FNV-1a 64 over key, a zero byte and occurrence; then the finalizer of
// MurmurHash3, because FNV leaves similar keys in similar high bits; then the
// high half of hash × window. A window under 1 ms gives 0.
func Jitter(key, occurrence string, window time.Duration) time.Duration {
	if window < time.Millisecond {
		return 0
	}
	h := fnv.New64a()
	io.WriteString(h, key)
	h.Write([]byte{0})
	io.WriteString(h, occurrence)
	hi, _ := bits.Mul64(fmix64(h.Sum64()), uint64(window/time.Millisecond))
	return time.Duration(hi) * time.Millisecond
}

func fmix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
