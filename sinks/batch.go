package sinks

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetched is what one poll gave, in offset order per partition.
type fetched struct {
	events  []EventRecord
	records []*kgo.Record
}

// grow makes room for n more records.
func (f *fetched) grow(n int) {
	f.events, f.records = slices.Grow(f.events, n), slices.Grow(f.records, n)
}

func (f *fetched) add(e EventRecord, r *kgo.Record) {
	f.events = append(f.events, e)
	f.records = append(f.records, r)
}

// batch is what is applied and committed together: heads are the last record
// of every partition in it.
type batch struct {
	events []EventRecord
	heads  map[int32]*kgo.Record
}

// split cuts what was fetched into batches within both bounds; each has at
// least one record.
func (f *fetched) split(maxRecords, maxBytes int) []batch {
	var out []batch
	from, size := 0, 0
	for i, r := range f.records {
		if i > from && (i-from >= maxRecords || size+len(r.Value) > maxBytes) {
			out, from, size = append(out, f.batch(from, i)), i, 0
		}
		size += len(r.Value)
	}
	if from < len(f.records) {
		out = append(out, f.batch(from, len(f.records)))
	}
	return out
}

// batch is what was fetched from one record up to another.
func (f *fetched) batch(from, to int) batch {
	b := batch{events: f.events[from:to:to], heads: map[int32]*kgo.Record{}}
	for _, r := range f.records[from:to] {
		b.heads[r.Partition] = r
	}
	return b
}
