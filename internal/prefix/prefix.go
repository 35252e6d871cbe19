// Package prefix is what a sort of many keys looks at first: how much all of
// them begin with, and as a number the 8 bytes behind that. Those nearly always
// say enough, and numbers lie side by side where keys lie anywhere in memory.
package prefix

import "encoding/binary"

// Common is how many of the first most bytes a and b begin with alike.
func Common[T string | []byte](a, b T, most int) int {
	n := min(most, len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Order is the first 8 bytes of s as a number, zeros behind a shorter one: it
// never orders two texts otherwise than their bytes do.
func Order[T string | []byte](s T) uint64 {
	var b [8]byte
	copy(b[:], s)
	return binary.BigEndian.Uint64(b[:])
}
