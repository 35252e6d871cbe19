package gateway

import (
	"net/http"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// traceNames are the headers of W3C Trace Context and Baggage. They travel from the request
// through the command to the due event. inHTTP has them as http.Header spells them, so that
// no request must convert them.
var (
	traceNames = []string{"traceparent", "tracestate", "baggage"}
	inHTTP     = []string{"Traceparent", "Tracestate", "Baggage"}
)

// withTrace adds the request's trace to a command's headers. It replaces the one that the
// trigger had.
func withTrace(own []trigger.Header, r *request) []trigger.Header {
	given := traceHeaders(r.Request)
	if r.span.Recording() || len(given) > 0 && given[0].Key == "traceparent" {
		own = slices.DeleteFunc(slices.Clone(own), func(h trigger.Header) bool {
			return slices.Contains(traceNames,
				h.Key)
		})
	}
	return append(slices.Clip(own), given...)
}

func traceHeaders(r *http.Request) (hs []trigger.Header) {
	for i, name := range traceNames {
		if v := r.Header.Get(inHTTP[i]); v != "" && len(v) <= 1024 {
			hs = append(hs, trigger.Header{Key: name, Value: []byte(v)})
		}
	}
	return hs
}
