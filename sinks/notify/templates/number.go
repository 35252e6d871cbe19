package templates

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// The numbers of JSON in a template. Each is shown as it is written, but a small exponent is
// written out. printf takes 50 and 50.0 for %d and for %f, because JSON has one kind of number. The
// kinds are such that if, range, index and comparisons work as for numbers of Go.
type (
	whole int64
	// fraction is shown with as many decimals as P has elements: 12.50. None stand for as many
	// as are needed.
	fraction[P padding] float64
	// numeral is a number that neither holds, such as 12345678901234567890.
	numeral string
)

type padding interface {
	[0]bool | [1]bool | [2]bool | [3]bool | [4]bool
}

// fractions are by number of decimals.
var fractions = []func(float64) any{
	func(f float64) any { return fraction[[0]bool](f) },
	func(f float64) any { return fraction[[1]bool](f) },
	func(f float64) any { return fraction[[2]bool](f) },
	func(f float64) any { return fraction[[3]bool](f) },
	func(f float64) any { return fraction[[4]bool](f) },
}

// maxShown bounds a number that is shown in full though it is written with an exponent.
const maxShown = 24

// number returns a number of JSON for templates.
func number(n json.Number) any {
	text := n.String()
	if i, err := n.Int64(); err == nil {
		return whole(i)
	}
	f, err := n.Float64()
	if err != nil {
		return numeral(text)
	}
	shown := strconv.FormatFloat(f, 'f', -1, 64)
	decimals := 0
	switch {
	case digits(shown) != digits(text): // a float64 has fewer
		return numeral(text)
	case strings.ContainsAny(text, "eE"):
		if len(shown) > maxShown {
			return numeral(text)
		}
	case shown != text: // it ends with zeros
		_, after, _ := strings.Cut(text, ".")
		decimals = len(after)
	}
	switch {
	case decimals < len(fractions):
	case f == 0: // if takes a text for true
		decimals = 0
	default:
		return numeral(text)
	}
	return fractions[decimals](f)
}

// digits returns the digits of a number, without zeros at both ends.
func digits(text string) string {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		text = text[:at]
	}
	return strings.Trim(strings.Replace(text, ".", "", 1), "-0")
}

// Format makes %f and its like those of a number.
func (n whole) Format(s fmt.State, verb rune) {
	switch verb {
	case 'e', 'E', 'f', 'F', 'g', 'G':
		new(big.Float).SetInt64(int64(n)).Format(s, verb) // a float64 may have fewer digits
		return
	case 's', 'v':
		verb = 'd'
	}
	as(s, verb, int64(n))
}

// Format makes %d that of a number.
func (n fraction[P]) Format(s fmt.State, verb rune) {
	f := float64(n)
	_, precise := s.Precision()
	switch {
	case verb == 's', verb == 'v' && !precise:
		var p P
		decimals := len(p)
		if decimals == 0 {
			decimals = -1
		}
		as(s, 's', strconv.FormatFloat(f, 'f', decimals, 64))
	case verb == 'd' && f == math.Trunc(f) && math.Abs(f) < 1<<63:
		as(s, verb, int64(f))
	default:
		as(s, verb, f)
	}
}

// maxExact bounds a number that is rounded without a float64.
const maxExact = 400

// Format makes %d and %f those of a number.
func (n numeral) Format(s fmt.State, verb rune) {
	text := string(n)
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case verb == 's', verb == 'v', verb == 'd' && !strings.ContainsAny(text, ".eE"):
		as(s, 's', text)
		return
	case err != nil: // it is out of range
		_, _ = s.Write([]byte(text))
		return
	case f != 0 && len(text) <= maxExact:
		exact, _, err := big.ParseFloat(text, 10, 64+4*uint(len(text)), big.ToNearestEven)
		if err == nil && strings.ContainsRune("eEfFgG", verb) {
			exact.Format(s, verb)
			return
		}
	}
	as(s, verb, f)
}

// as writes a value with the flags of s.
func as(s fmt.State, verb rune, value any) { fmt.Fprintf(s, fmt.FormatString(s, verb), value) }
