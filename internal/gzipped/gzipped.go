// Package gzipped compresses answers for callers that take gzip (RFC 9110, section 12.5.3).
package gzipped

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// Bytes compresses b at one of the levels of compress/gzip.
func Bytes(b []byte, level int) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		panic(err) // there is no such level
	}
	_, _ = w.Write(b) // a buffer takes all
	_ = w.Close()
	return out.Bytes()
}

// Taken says whether a request takes gzip: its headers name it, or everything, and not with weight 0.
func Taken(h http.Header) bool {
	all := false
	for item := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameter, _ := strings.Cut(item, ";")
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return weighs(parameter)
		case "*":
			all = weighs(parameter)
		}
	}
	return all
}

// weighs says whether the parameter of a coding leaves it a weight. One that cannot be read counts as 0: plain bytes
// are right for everybody.
func weighs(parameter string) bool {
	name, value, given := strings.Cut(strings.TrimSpace(parameter), "=")
	if name == "" && !given {
		return true
	}
	q, err := strconv.ParseFloat(value, 64)
	return strings.EqualFold(name, "q") && err == nil && q > 0
}
