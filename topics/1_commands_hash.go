package topics

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/waterclock/waterclock/trigger"
)

// contentHash is the first 16 bytes of SHA-256 over the content of a register
// (docs/formats/commands.md). Two registers with the same hash are duplicates. Tracing,
// correlation and conditions are not hashed. Of a delay the text is. Values are hashed after
// decoding, so a default that was written out counts like one that was left out.
func contentHash(s *trigger.Spec) trigger.Hash {
	h := contentBuffers.Get().(*content)
	h.b = append(h.b[:0], contentVersion...)
	h.number(1, int64(s.When.Kind))
	for i := range hashed {
		hashed[i].hash(h, s)
	}
	sum := sha256.Sum256(h.b)
	contentBuffers.Put(h)
	return trigger.Hash(sum[:16])
}

// contentVersion is hashed first. If it or anything below changes, every register looks
// changed once. So such a change needs a note in the CHANGELOG.
const contentVersion = "waterclock content 1\n"

var contentBuffers = sync.Pool{New: func() any { return new(content) }}

// content hashes number, length and bytes of each value that is not the default. The encoding
// is unambiguous.
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

func (h *content) items(number byte, list []string) {
	for _, s := range list {
		h.item(number, s)
	}
}

func (h *content) calendars(c *trigger.Calendars) {
	if c != nil {
		h.items(14, c.Names)
		h.text(15, c.On)
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
		h.item(33, wait.String())
	}
	h.flag(34, c.Raw)
	h.flag(35, c.Recheck)
}

func (h *content) escalation(steps []trigger.Step) {
	for i := range steps {
		h.item(36, steps[i].Channel)
		h.item(37, steps[i].After.String())
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
