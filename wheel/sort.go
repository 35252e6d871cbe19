package wheel

import "slices"

// sortRefs sorts the refs of one millisecond. Usually there are a few; a herd
// hydrated from the store is sorted already, which slices.Sort would find out
// only piece by piece.
func sortRefs(a []string) {
	if len(a) <= 12 {
		insertionSort(a)
		return
	}
	if !slices.IsSorted(a) {
		slices.Sort(a)
	}
}

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
