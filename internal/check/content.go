package check

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"sort"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// complete fills in defaults, and finds faults that only a whole command can show. The checker
// does not know all faults. If a refusal names another, the checker accepts it.
func (c *command) complete(r *Record, header bool) {
	if c.fault != "" {
		return
	}
	if !ops[c.op] {
		c.blame("unknown_op", c.op)
		return
	}
	if c.op == "register" || c.op == "reschedule" {
		c.completeTime()
	}
	if c.op == "register" || c.op == "redrive" {
		c.completeContent(r, header)
	}
}

func (c *command) completeTime() {
	w := &c.when
	series := w.recurrence.text != "" || len(w.include) > 0
	switch {
	case series && w.kind == whenDelay, w.kind == whenInstant && series && (w.start != "" || w.recurrence.text == ""):
		c.blame("conflicting_time", "two time fields")
	case series:
		if w.kind == whenInstant {
			w.start = w.fireAt
		}
		w.kind = whenSeries
	case w.kind == whenNone:
		c.blame("conflicting_time", "no time field")
	case w.kind == whenInstant && w.at == 0:
		if w.kind = whenLocal; w.zone == "" {
			c.blame("invalid", "a local fire_at without timezone")
		}
	}
	const year = 366 * 86400 * 1000
	if w.kind == whenInstant && w.at < c.appended-year {
		c.blame("in_the_past", "fire_at")
	}
}

func (c *command) completeContent(r *Record, header bool) {
	w := &c.what
	if w.channel == "" && len(w.steps) > 0 {
		w.channel = w.steps[0].channel
	}
	if w.channel == "" {
		w.channel = "default"
		if w.callback != "" {
			w.channel = "webhook"
		}
	}
	if header && w.payload == nil {
		w.payload = r.Value
	}
	own := w.headers
	w.headers = nil
	for _, h := range r.Headers {
		if !reserved(h.Key) && !slices.ContainsFunc(own, func(o Header) bool { return o.Key == h.Key }) {
			w.headers = append(w.headers, h)
		}
	}
	for _, h := range own {
		if !reserved(h.Key) {
			w.headers = append(w.headers, h)
		}
	}
	w.headers = slices.DeleteFunc(w.headers, func(h Header) bool {
		if strings.EqualFold(h.Key, "content-type") {
			w.ctype = string(h.Value)
			return true
		}
		return h.Key == "traceparent"
	})
	if w.ctype == "" && len(w.payload) > 0 {
		w.ctype = "application/octet-stream"
		if json.Valid(w.payload) {
			w.ctype = "application/json"
		}
	}
	sort.Slice(w.tags, func(i, j int) bool { return w.tags[i].name < w.tags[j].name })
}

// reserved reports whether a header is a command field or ours. Such headers are not copied to
// the due event.
func reserved(name string) bool {
	return isCommandHeader(name) || strings.HasPrefix(name, "ce_") || strings.HasPrefix(name, "wcx-")
}

// same reports whether two registers have the same content.
func (c *command) same(o *command) bool { return c.hash() == o.hash() }

// hash covers all decoded content. It is the checker's own hash, and is never compared with the
// one in topic state.
func (c *command) hash() uint64 {
	if c.content != 0 {
		return c.content
	}
	var b []byte
	text := func(parts ...string) {
		for _, s := range parts {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	num := func(parts ...int64) {
		for _, n := range parts {
			b = binary.AppendVarint(b, n)
		}
	}
	w, k := &c.what, &c.when
	num(int64(k.kind))
	switch k.kind {
	case whenDelay:
		text(k.delayText)
	case whenInstant:
		num(k.at)
	case whenLocal:
		num(int64(k.wall), k.frac)
		text(k.zone)
	case whenSeries:
		text(k.recurrence.text, k.zone, plainTime(k.start), plainTime(k.until))
		num(int64(k.count), int64(len(k.include)), int64(len(k.exclude)))
		for _, t := range append(slices.Clone(k.include), k.exclude...) {
			text(plainTime(t))
		}
		text(k.calendarText)
	}
	text(or(k.gap, "shift"), or(k.overlap, "first"))
	text(w.channel, w.user, w.ctype, w.target, or(w.priority, "normal"), or(w.misfire, "fire_once"), w.callback,
		string(w.payload))
	num(w.jitter, w.expires, int64(len(w.tags)), int64(len(w.steps)), int64(len(w.headers)))
	for _, t := range w.tags {
		text(t.name, t.value)
	}
	for _, s := range w.steps {
		text(s.channel)
		num(s.after)
	}
	hs := slices.DeleteFunc(slices.Clone(w.headers), func(h Header) bool {
		return h.Key == "tracestate" ||
			h.Key == "baggage"
	})
	sort.SliceStable(hs, func(i, j int) bool { return hs[i].Key < hs[j].Key })
	for _, h := range hs {
		text(h.Key, string(h.Value))
	}
	if c.content = xxhash.Sum64(b); c.content == 0 {
		c.content = 1
	}
	return c.content
}

// plainTime formats a time in one canonical form.
func plainTime(s string) string {
	if w, date, ok := parseWall(s); ok {
		if date {
			return s
		}
		return w.String()
	}
	if at, ok := instantText(s); ok {
		return spell(at)
	}
	return s
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
