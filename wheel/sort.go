package wheel

import (
	"slices"

	"github.com/waterclock/waterclock/internal/prefix"
)

// sortRefs sorts the refs of one millisecond. Usually there are a few; a herd
// hydrated from the store is sorted already, which slices.Sort would find out
// only piece by piece; one that was just registered is not.
func sortRefs(a []string) {
	switch {
	case len(a) <= 12:
		insertionSort(a)
	case slices.IsSorted(a):
	case len(a) < herdLen:
		slices.Sort(a)
	default:
		sortHerd(a, 0)
	}
}

// herdLen is from where on sortHerd is the faster.
const herdLen = 256

func insertionSort(a []string) {
	for i := 1; i < len(a); i++ {
		s := a[i]
		j := i
		for ; j > 0 && s < a[j-1]; j-- {
			a[j] = a[j-1]
		}
		a[j] = s
	}
}

// keyed stands for a ref: as a number, the 8 bytes of it behind what all refs
// of its run begin with. They nearly always say enough, and lie side by side,
// where a sort of strings would fetch the bytes of two for every step.
type keyed struct {
	order uint64
	at    uint32 // in the run
}

// sortHerd sorts many refs, known to begin with the same bytes, by their numbers
// first.
func sortHerd(a []string, known int) {
	shared := sharedPrefix(a)
	if shared < known { // they are told apart by where they end
		slices.Sort(a)
		return
	}
	herd := make([]keyed, len(a))
	for i, ref := range a {
		herd[i] = keyed{prefix.Order(ref[shared:]), uint32(i)}
	}
	herd = radixSort(herd)
	refs := slices.Clone(a)
	for i, k := range herd {
		a[i] = refs[k.at]
	}
	for i := 0; i < len(a); { // runs of the same number, mostly of one
		end := i + 1
		for end < len(a) && herd[end].order == herd[i].order {
			end++
		}
		if run := a[i:end]; len(run) < herdLen {
			slices.Sort(run)
		} else {
			sortHerd(run, shared+8)
		}
		i = end
	}
}

// radixSort sorts by order, a byte at a time, the last first; bytes that are
// the same everywhere cost a look.
func radixSort(a []keyed) []keyed {
	b := make([]keyed, len(a))
	for shift := 0; shift < 64; shift += 8 {
		var at [257]uint32 // where the next with this byte goes
		for _, k := range a {
			at[int(byte(k.order>>shift))+1]++
		}
		if at[int(byte(a[0].order>>shift))+1] == uint32(len(a)) {
			continue
		}
		for i := range 256 {
			at[i+1] += at[i]
		}
		for _, k := range a {
			n := &at[byte(k.order>>shift)]
			b[*n] = k
			*n++
		}
		a, b = b, a
	}
	return a
}

// sharedPrefix is how many bytes all refs begin with.
func sharedPrefix(a []string) int {
	n := len(a[0])
	for _, ref := range a[1:] {
		n = prefix.Common(a[0], ref, n)
	}
	return n
}
