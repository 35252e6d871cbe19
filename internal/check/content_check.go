package check

import (
	"bytes"
	"sort"
	"strconv"
	"strings"
)

func spellInt(n int) string { return strconv.Itoa(n) }

// mixed compares a due record with the register that it is based on, and that one's revision (C7).
func (t *life) mixed(d *due, c *command, revision int64) {
	if c == nil || !t.known {
		return
	}
	w := &c.what
	what, has, want := "", "", ""
	switch {
	case d.revision != revision:
		what, has, want = "ce_wcrevision", strconv.FormatInt(d.revision, 10), strconv.FormatInt(revision, 10)
	case !bytes.Equal(d.payload, w.payload):
		what, has, want = "payload", excerpt(d.payload), excerpt(w.payload)
	case d.user != w.user:
		what, has, want = "ce_wcuser", d.user, w.user
	case d.content != w.ctype:
		what, has, want = "content-type", d.content, w.ctype
	case !sameHeaders(d.headers, w.headers):
		what, has, want = "headers", spellHeaders(d.headers), spellHeaders(w.headers)
	case !t.channelFits(d.topic, w.channelOf(d.step), w.priority):
		what, has, want = "topic", d.topic, "that of channel "+w.channelOf(d.step)
	case d.tags != "" && !sameTags(d.tags, w.tags) || d.tags == "" && len(w.tags) > 0:
		what, has, want = "wcx-tags", d.tags, "the registered ones"
	}
	if what != "" {
		t.fail(Phantom, append(dueRecord(d), t.commandRecord(c)...), "%s is %s, registered is %s", what, has, want)
	}
}

func excerpt(b []byte) string {
	if len(b) > 64 {
		return strconv.Quote(string(b[:64])) + "… (" + strconv.Itoa(len(b)) + " bytes)"
	}
	return strconv.Quote(string(b))
}

// channelFits reports whether a topic is that of the channel, or its high lane. A channel may be
// configured to deliver to another topic. Then the name shows nothing.
func (t *life) channelFits(topic, channel, priority string) bool {
	name, ours := strings.CutPrefix(topic, t.v.h.Prefix+"due.")
	if !ours {
		return true
	}
	return name == channel || name == channel+".high" && priority == "high"
}

func sameTags(text string, tags []tag) bool {
	n := 0
	err := members([]byte(text), func(name, raw []byte) error {
		for _, g := range tags {
			if g.name == string(name) && g.value == string(unquoted(raw)) {
				n++
			}
		}
		return nil
	})
	return err == nil && n == len(tags)
}

// sameHeaders compares the users' headers. It ignores trace headers, because tracing rewrites
// them.
func sameHeaders(a, b []Header) bool {
	x, y := sortedHeaders(a), sortedHeaders(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].Key != y[i].Key || !bytes.Equal(x[i].Value, y[i].Value) {
			return false
		}
	}
	return true
}

func sortedHeaders(hs []Header) []Header {
	if len(hs) == 0 {
		return nil
	}
	out := make([]Header, 0, len(hs))
	for _, h := range hs {
		if h.Key != "tracestate" && h.Key != "traceparent" {
			out = append(out, h)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

func spellHeaders(hs []Header) string {
	var b strings.Builder
	for _, h := range sortedHeaders(hs) {
		b.WriteString(h.Key + "=" + excerpt(h.Value) + " ")
	}
	return strings.TrimSpace(b.String())
}
