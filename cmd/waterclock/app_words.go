package main

import (
	"fmt"
	"strconv"
	"strings"
)

// or returns s, or otherwise if s is empty.
func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// plural returns "1 broker" or "3 brokers".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// count returns a number with thousands separators and the noun in singular or plural.
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s + " " + strings.TrimSuffix(what, " ")
}
