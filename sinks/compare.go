package sinks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/waterclock/waterclock/topics"
)

// Window is the part of the history in which two sinks must agree: from the start of the log
// to where the rebuild has read.
type Window struct {
	From, To   map[int32]int64 // event_us of the first and the last event, by partition
	Partitions int32           // partitions of the topic, for tables without a partition
	Ends       int64           // rows that expire before it (seconds) are left out: only one read may see them
}

// side is a row's position relative to the window.
type side int8

const (
	within side = iota
	before      // the window
	behind      // after it
	ending      // within it, but it expires while the sinks are compared
)

func (w Window) side(r Row) side {
	p := r.Partition
	if p < 0 {
		p = topics.Partition([]byte(r.Trigger), max(1, w.Partitions))
	}
	from, ok := w.From[p]
	switch {
	case !ok || r.EventUS < from || r.BornUS != 0 && r.BornUS < from:
		return before // the log no longer has events of this partition
	case r.EventUS > w.To[p]:
		return behind
	case r.Until < w.Ends:
		return ending
	}
	return within
}

// TableReport has the result of Compare for one table.
type TableReport struct {
	Table    Table
	Old, New int64 // rows within the window
	Before   int64 // rows of the old sink from before the start of the log
	Ahead    int64 // rows of the old sink that later events have changed since
	Ending   int64 // rows of the old sink that expire while the sinks are compared
	Differ   []Difference
	More     int64 // triggers that differ and are not listed
}

// Difference is a trigger whose rows differ between the sinks.
type Difference struct {
	Tenant, Trigger string
	Old, New        int64 // rows within the window
}

// maxDifferences bounds the triggers a report lists by name.
const maxDifferences = 100

// buckets bounds the memory of Compare, which keeps a count and a sum of digests for each
// bucket. A trigger's hash gives its bucket.
const buckets = 1 << 16

// tally is an unordered digest of a set of rows. Equal sets have equal tallies. Unequal sets
// have equal ones with a probability of 2^-128.
type tally struct {
	rows   int64
	lo, hi uint64
}

func (t *tally) add(r Row) {
	t.rows++
	sum := sha256.Sum256(append(append(append(r.Digest[:len(r.Digest):len(r.Digest)], r.Tenant...), 0), r.Trigger...))
	t.lo += binary.BigEndian.Uint64(sum[:8])
	t.hi += binary.BigEndian.Uint64(sum[8:16])
}

// Compare reads both sinks and reports where they differ within the window. It reads each
// table once, and the triggers of buckets that differ a second time.
func Compare(ctx context.Context, old, fresh Scanner, w Window) (all []TableReport, err error) {
	return compareTables(ctx, old, fresh, w, Tables)
}

func compareTables(ctx context.Context, old, fresh Scanner, w Window, tables []Table) (all []TableReport, err error) {
	for _, t := range tables {
		r, err := compareTable(ctx, old, fresh, w, t)
		if err != nil {
			return all, fmt.Errorf("compare %s: %w", t, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func compareTable(ctx context.Context, old, fresh Scanner, w Window, t Table) (r TableReport, err error) {
	r.Table = t
	c := &comparison{w: w, t: t, ahead: map[uint64]struct{}{}}
	a, b := make([]tally, buckets), make([]tally, buckets)
	err = c.scanOld(ctx, old, func(at side, row Row) {
		switch at {
		case before:
			r.Before++
		case ending:
			r.Ending++
		case within:
			r.Old++
			a[bucketOf(row)].add(row)
		}
	})
	if err != nil {
		return r, err
	}
	r.Ahead = int64(len(c.ahead))
	err = c.scanNew(ctx, fresh, func(row Row) {
		r.New++
		b[bucketOf(row)].add(row)
	})
	if err != nil {
		return r, err
	}
	suspect := map[uint32]bool{}
	for i := range a {
		if a[i] != b[i] {
			suspect[uint32(i)] = true
		}
	}
	if len(suspect) == 0 {
		return r, nil
	}
	return r, r.name(ctx, c, old, fresh, suspect)
}

// comparison knows which rows cannot be compared. The old sink's projector goes on, and has
// changed them since the rebuild read its last event.
type comparison struct {
	w     Window
	t     Table
	ahead map[uint64]struct{} // by hash of the row's key
}

// maxAheadRows bounds what a comparison holds in memory.
const maxAheadRows = 5_000_000

func (c *comparison) scanOld(ctx context.Context, s Scanner, visit func(at side, r Row)) error {
	return s.Scan(ctx, c.t, func(r Row) error {
		at := c.w.side(r)
		if at == behind && c.t != TableEvents && c.t != TableLetters && c.t != TableLetterEnds {
			// later events do not change a row of these tables
			c.ahead[rowKey(r)] = struct{}{}
		}
		if len(c.ahead) > maxAheadRows {
			return fmt.Errorf("the old sink has more than %d rows of events that came after the rebuild began: "+
				"rerun it with the old projector stopped", maxAheadRows)
		}
		visit(at, r)
		return nil
	})
}

func (c *comparison) scanNew(ctx context.Context, s Scanner, visit func(r Row)) error {
	return s.Scan(ctx, c.t, func(r Row) error {
		if _, ahead := c.ahead[rowKey(r)]; !ahead && c.w.side(r) == within {
			visit(r)
		}
		return nil
	})
}

// rowKey is a hash of a row's key in a table whose rows later events change.
func rowKey(r Row) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%s", r.Due, r.Tenant, r.Trigger, r.ID))
	return binary.BigEndian.Uint64(sum[:])
}

func bucketOf(r Row) uint32 {
	sum := sha256.Sum256([]byte(r.Tenant + "\x00" + r.Trigger))
	return binary.BigEndian.Uint32(sum[:4]) % buckets
}

// name finds which triggers of the suspect buckets differ.
func (r *TableReport) name(ctx context.Context, c *comparison, old, fresh Scanner, suspect map[uint32]bool) error {
	r.More = trim(suspect, maxDifferences) // keep no more triggers than the report lists
	a, b := map[[2]string]tally{}, map[[2]string]tally{}
	into := func(all map[[2]string]tally, row Row) {
		if suspect[bucketOf(row)] {
			k := [2]string{row.Tenant, row.Trigger}
			one := all[k]
			one.add(row)
			all[k] = one
		}
	}
	err := c.scanOld(ctx, old, func(at side, row Row) {
		if at == within {
			into(a, row)
		}
	})
	if err != nil {
		return err
	}
	if err := c.scanNew(ctx, fresh, func(row Row) { into(b, row) }); err != nil {
		return err
	}
	r.list(a, b)
	return nil
}

// trim leaves at most n elements and returns how many it removed.
func trim(set map[uint32]bool, n int) (taken int64) {
	for k := range set {
		if len(set) <= n {
			break
		}
		delete(set, k)
		taken++
	}
	return taken
}

func (r *TableReport) list(a, b map[[2]string]tally) {
	for k, x := range a {
		if y := b[k]; x != y {
			r.Differ = append(r.Differ, Difference{k[0], k[1], x.rows, y.rows})
		}
	}
	for k, y := range b {
		if _, ok := a[k]; !ok {
			r.Differ = append(r.Differ, Difference{k[0], k[1], 0, y.rows})
		}
	}
	slices.SortFunc(r.Differ, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Trigger, b.Trigger))
	})
	if n := len(r.Differ); n > maxDifferences {
		r.More, r.Differ = r.More+int64(n-maxDifferences), r.Differ[:maxDifferences]
	}
}
