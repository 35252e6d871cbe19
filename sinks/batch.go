package sinks

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetched holds the records of one poll, in the order of offsets within a partition.
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

// batch holds the records that are applied and committed together. heads has the last record of
// each partition.
type batch struct {
	events []EventRecord
	heads  map[int32]*kgo.Record
}

// split divides the records into batches within both bounds. Each batch has at least one
// record.
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

// batch returns the batch of the records in [from, to).
func (f *fetched) batch(from, to int) batch {
	b := batch{events: f.events[from:to:to], heads: map[int32]*kgo.Record{}}
	for _, r := range f.records[from:to] {
		b.heads[r.Partition] = r
	}
	return b
}
