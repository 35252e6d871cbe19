// Package near guesses which of the known names a person meant.
package near

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Hint is "; did you mean X?" for the known name nearest to a word, or "" where
// none is near.
func Hint(word string, known []string) string {
	name, ok := Name(word, known)
	if !ok {
		return ""
	}
	return "; did you mean " + name + "?"
}

// Name is the known name nearest to a word, the first of several. Near is what
// begins with the word, or differs in about a third of its letters. Case, and
// "-" for "_", do not count.
func Name(word string, known []string) (name string, ok bool) {
	word = plain(word)
	most := min(len(word)/3+1, len(word)-1)
	for _, k := range known {
		if d := distance(word, plain(k)); d <= most {
			name, ok, most = k, true, d-1
		}
	}
	return name, ok
}

// Sorted is the known names, the nearest to a word first; those equally near
// stay in their order.
func Sorted(word string, known []string) []string {
	word = plain(word)
	out := slices.Clone(known)
	slices.SortStableFunc(out, func(a, b string) int { return distance(word, plain(a)) - distance(word, plain(b)) })
	return out
}

func distance(word, known string) int {
	if word != "" && strings.HasPrefix(known, word) {
		return 0
	}
	return levenshtein.ComputeDistance(word, known)
}

func plain(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
