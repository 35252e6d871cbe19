package topics

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// contentHash is the first 16 bytes of SHA-256 over the content of a register
// (docs/formats/commands.md): what two registers must share to be duplicates.
// Tracing, correlation and conditions are not in it; a delay is in it by its
// text. Values are taken after un-spelling, so a default that was written out
// is the same as one that was left out.
func contentHash(s *trigger.Spec) trigger.Hash {
	h := contentBuffers.Get().(*content)
	defer contentBuffers.Put(h)
	h.b = append(h.b[:0], contentVersion...)
	h.when(&s.When)
	h.text(20, s.Channel)
	h.text(21, s.UserID)
	h.data(22, s.Payload)
	h.text(23, s.ContentType)
	h.text(24, s.TargetKey)
	h.number(25, int64(wirePriority[s.Priority]))
	h.number(26, int64(s.Jitter))
	h.number(27, int64(s.Expires))
	h.number(28, int64(s.Misfire))
	h.flag(29, s.FollowUser)
	h.callback(s.Callback)
	h.tags(s.Tags)
	h.headers(s.Headers)
	sum := sha256.Sum256(h.b)
	return trigger.Hash(sum[:16])
}

// contentVersion begins what is hashed. Changing it, or anything below, makes
// every register look changed once: it needs a note to whoever upgrades.
const contentVersion = "waterclock content 1\n"

var contentBuffers = sync.Pool{New: func() any { return new(content) }}

// content writes (number, length, bytes) for every value that is not the
// default; nothing in it can be read in two ways.
type content struct {
	b     []byte
	order []trigger.Header
}

func (h *content) item(number byte, v string) {
	h.b = binary.AppendUvarint(append(h.b, number), uint64(len(v)))
	h.b = append(h.b, v...)
}

func (h *content) text(number byte, v string) {
	if v != "" {
		h.item(number, v)
	}
}

func (h *content) data(number byte, v []byte) {
	if len(v) > 0 {
		h.b = binary.AppendUvarint(append(h.b, number), uint64(len(v)))
		h.b = append(h.b, v...)
	}
}

func (h *content) number(number byte, v int64) {
	if v != 0 {
		h.b = append(h.b, number, 8)
		h.b = binary.BigEndian.AppendUint64(h.b, uint64(v))
	}
}

func (h *content) flag(number byte, v bool) {
	if v {
		h.number(number, 1)
	}
}

func (h *content) when(w *trigger.When) {
	h.number(1, int64(w.Kind))
	h.text(2, w.DelayText)
	h.number(3, int64(w.FireAt))
	h.text(4, w.Local)
	h.text(5, w.Zone)
	h.text(6, w.Recurrence)
	h.text(7, w.Start)
	for _, s := range w.Include {
		h.item(8, s)
	}
	for _, s := range w.Exclude {
		h.item(9, s)
	}
	h.text(10, w.Until)
	h.number(11, int64(w.Count))
	h.text(12, w.DST.Gap)
	h.text(13, w.DST.Overlap)
	if w.Calendars != nil {
		for _, s := range w.Calendars.Names {
			h.item(14, s)
		}
		h.text(15, w.Calendars.On)
	}
}

func (h *content) callback(c *trigger.Callback) {
	if c == nil {
		return
	}
	h.text(30, c.URL)
	h.number(31, int64(c.Timeout))
	h.flag(32, c.Retry != nil)
	for _, wait := range c.Retry {
		h.item(33, time.Duration(wait).String())
	}
}

func (h *content) tags(tags []trigger.Tag) {
	for i := range tags {
		h.item(40, tags[i].Key)
		h.item(41, tags[i].Value)
	}
}

// headers are hashed by name; those of one name keep their order.
func (h *content) headers(headers []trigger.Header) {
	if len(headers) == 0 {
		return
	}
	h.order = append(h.order[:0], headers...)
	slices.SortStableFunc(h.order, func(a, b trigger.Header) int { return strings.Compare(a.Key, b.Key) })
	for i := range h.order {
		switch key := h.order[i].Key; key {
		case "tracestate", "baggage":
		default:
			h.item(42, key)
			h.item(43, string(h.order[i].Value))
		}
	}
	clear(h.order)
}
