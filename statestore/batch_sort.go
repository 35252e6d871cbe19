package statestore

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/waterclock/waterclock/internal/prefix"
)

// slot is an op with its sort key: the 8 bytes after the prefix that all keys of the table share.
// They nearly always decide the order.
type slot struct {
	order uint64
	op    uint32 // index of the op; of several ops on one key, the last wins
}

// sort orders the ops of one table by key, and ops on the same key by age. shared is the
// length of the prefix that all keys share.
func (b *Batch) sort(ops []op) (sorted []slot, shared int) {
	shared = b.shared(ops)
	sorted = b.sorted[:0]
	for i, o := range ops {
		sorted = append(sorted, slot{prefix.Order(b.bytes(o.key)[shared:]), uint32(i)})
	}
	slices.SortFunc(sorted, func(x, y slot) int {
		if x.order != y.order {
			return cmp.Compare(x.order, y.order)
		}
		if c := bytes.Compare(b.bytes(ops[x.op].key)[shared:], b.bytes(ops[y.op].key)[shared:]); c != 0 {
			return c
		}
		return cmp.Compare(x.op, y.op)
	})
	b.sorted = sorted
	return sorted, shared
}

func (b *Batch) shared(ops []op) int {
	if len(ops) == 0 {
		return 0
	}
	first := b.bytes(ops[0].key)
	n := len(first)
	for _, o := range ops[1:] {
		n = prefix.Common(first, b.bytes(o.key), n)
	}
	return n
}
