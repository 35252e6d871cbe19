package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// handler answers one request. Its error becomes a problem.
type handler func(http.ResponseWriter, *request) error

// route is one method of one path. In a pattern, {x} stands for one percent-encoded
// segment, and {x}:verb for one that ends in a verb.
type route struct {
	method  string
	pattern string
	right   auth.Rights // the one that a caller needs; 0: no credential needed
	handle  handler
	costly  bool      // bounded by reads.go
	shared  bool      // its answer depends on tenant, role, path and query alone, and may be a second old
	doc     operation // for /openapi.json

	segments []string
	verb     string // of a pattern that ends in one
}

// writes says whether the route adds records to topics.
func (r *route) writes() bool {
	return r.right != 0 && r.right != auth.Read && r.method != http.MethodGet
}

// routeTable finds routes. Paths are matched before they are decoded, so that
// an id may have any character, and none is cleaned away.
type routeTable struct {
	bySize map[int][]*route // by number of segments
}

// newRouteTable has the routes that the parts answer. Empty parts are enough to describe them.
func newRouteTable(p *parts) *routeTable {
	t := &routeTable{bySize: map[int][]*route{}}
	for _, r := range allRoutes(p) {
		r.segments = strings.Split(r.pattern, "/")
		_, r.verb, _ = strings.Cut(r.pattern, "}:")
		t.bySize[len(r.segments)] = append(t.bySize[len(r.segments)], &r)
	}
	for _, list := range t.bySize { // literal segments come before placeholders
		slices.SortStableFunc(list, func(a, b *route) int { return a.openness() - b.openness() })
	}
	return t
}

func (r *route) openness() (n int) {
	for _, seg := range r.segments {
		switch {
		case strings.HasSuffix(seg, "}"):
			n += 2
		case strings.HasPrefix(seg, "{"):
			n++
		}
	}
	return n
}

// find returns the route of a request, and the names in its path.
func (t *routeTable) find(method, escapedPath string) (*route, map[string]string, *problem.Problem) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(escapedPath, "/")
	var allow []string
	verb := false
	for _, r := range t.bySize[len(segments)] {
		if verb && r.verb == "" {
			continue // x:pause is a verb; an id that ends so is written x%3Apause
		}
		names, ok := r.match(segments)
		if ok && r.method == method {
			return r, names, nil
		}
		if ok {
			allow = append(allow, r.method)
			verb = verb || r.verb != ""
		}
	}
	if verb := lastVerb(segments); verb != "" && method == http.MethodPost && !slices.Contains(allow, method) {
		return nil, nil, problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
			"no verb "+verb+": there are snooze, skip, pause, resume, run, rezone, ack and erase")
	}
	if len(allow) == 0 {
		return nil, nil, problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "no such path; see /docs")
	}
	slices.Sort(allow)
	return nil, nil, problem.MethodNotAllowed(method, slices.Compact(allow))
}

func (r *route) match(segments []string) (map[string]string, bool) {
	var names map[string]string
	for i, want := range r.segments {
		if want == segments[i] {
			continue
		}
		if !strings.HasPrefix(want, "{") {
			return nil, false
		}
		segment := segments[i]
		name, verb, hasVerb := strings.Cut(want[1:], "}:")
		if hasVerb {
			var is string
			if segment, is = cutVerb(segment); is != verb {
				return nil, false
			}
		}
		value, err := url.PathUnescape(segment)
		if err != nil || value == "" {
			return nil, false
		}
		if names == nil {
			names = map[string]string{}
		}
		names[strings.TrimSuffix(name, "}")] = value
	}
	return names, true
}

// cutVerb cuts a segment at its last ':'. The colon is not encoded: x%3Apause is an id.
func cutVerb(segment string) (rest, verb string) {
	at := strings.LastIndexByte(segment, ':')
	if at < 0 {
		return segment, ""
	}
	if verb, err := url.PathUnescape(segment[at+1:]); err == nil {
		return segment[:at], verb
	}
	return segment, ""
}

// lastVerb is the verb that a trigger's path ends in, for a message; "" if in none.
func lastVerb(segments []string) string {
	if len(segments) != 4 || segments[2] != "triggers" {
		return ""
	}
	if _, verb := cutVerb(segments[3]); verb != "" {
		return printable.Quoted(verb)
	}
	return ""
}
