package sinks

import "github.com/twmb/franz-go/pkg/kgo"

// fetched is what one poll gave, in offset order per partition.
type fetched struct {
	events  []EventRecord
	records []*kgo.Record
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
	size := 0
	for i, r := range f.records {
		if n := len(out); n == 0 || len(out[n-1].events) >= maxRecords || size+len(r.Value) > maxBytes {
			out, size = append(out, batch{heads: map[int32]*kgo.Record{}}), 0
		}
		b := &out[len(out)-1]
		b.events = append(b.events, f.events[i])
		b.heads[r.Partition] = r
		size += len(r.Value)
	}
	return out
}
