// Package traceparent reads the header of W3C Trace Context, and knows nothing
// of what is done with it.
package traceparent

// Header is what a traceparent says.
type Header struct {
	TraceID [16]byte
	SpanID  [8]byte
	Flags   byte
}

// 00-<32 hex>-<16 hex>-<2 hex>. Later versions may go on behind another '-'.
const (
	traceAt, spanAt, flagsAt, least = 3, 36, 53, 55
)

// Parse reads a traceparent (W3C Trace Context, 3.2); ok is false for one that
// is not well formed, which counts as none. It allocates nothing.
func Parse(text string) (h Header, ok bool) {
	if len(text) < least || text[2] != '-' || text[spanAt-1] != '-' || text[flagsAt-1] != '-' {
		return Header{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || !unhex(h.TraceID[:], text[traceAt:spanAt-1]) ||
		!unhex(h.SpanID[:], text[spanAt:flagsAt-1]) || !unhex(flags[:], text[flagsAt:least]) {
		return Header{}, false
	}
	if version[0] == 0xff || version[0] == 0 && len(text) != least || len(text) > least && text[least] != '-' {
		return Header{}, false
	}
	h.Flags = flags[0]
	return h, h.TraceID != [16]byte{} && h.SpanID != [8]byte{}
}

// unhex reads lower case only, as the standard has it.
func unhex(to []byte, text string) bool {
	for i := range to {
		a, b := nibble(text[2*i]), nibble(text[2*i+1])
		if a > 15 || b > 15 {
			return false
		}
		to[i] = a<<4 | b
	}
	return true
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}
