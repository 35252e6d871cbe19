package pipeline

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// outbox is the list of records on our partition that belong to other partitions. It sends
// and reads nothing: forward.go sends, forward_owed.go reads.
//
// The source log is the real outbox. Memory holds the first owed records of each route, up
// to a number of bytes. The rest is an offset range of the log, read when there is room. So
// memory is bounded however much is owed, and turns never wait for a target that accepts
// nothing.
//
//	owed by a route, in order of offset:
//
//	[ queue: in memory, sent from the front ][ rest..last: only in the log ]
//
// Order per route holds because a record enters the queue only when the log holds no owed
// record before it.
type outbox struct {
	bytes  int // that one route may hold in memory; it may always hold one record
	routes map[route]*backlog
}

// route is one ordered stream, from a source topic to a target partition. Commands and
// receipts have separate offsets.
type route struct {
	topic  string
	target int32
}

func (r route) compare(o route) int {
	return cmp.Or(cmp.Compare(r.topic, o.topic), cmp.Compare(r.target, o.target))
}

// backlog is what one route still has to send.
type backlog struct {
	queue      []*kgo.Record
	size       int   // bytes in queue
	rest, last int64 // offsets owed in the log, both included; none if rest > last
	lost       []offsets
	refused    []*kgo.Record // their topic refuses them; a turn must record that
	sending    bool          // a goroutine sends the records in queue
}

// offsets is a range: from is the first, to the one after the last.
type offsets struct{ from, to int64 }

// misplaced is a record and the partition that its key belongs to.
type misplaced struct {
	*kgo.Record
	home int32
}

// These bound one batch that is sent.
const (
	forwardBatch = 100 // records
	forwardBytes = 700 << 10
)

// leastRouteBytes is what a route may always hold in memory, however many routes there are.
const leastRouteBytes = 256 << 10

// newOutbox divides memory between the routes that a source partition can have.
func newOutbox(memory int, partitions int32) outbox {
	most := max(2*int(partitions-1), 1) // commands and receipts, to each other partition
	return outbox{bytes: max(memory/most, min(memory, leastRouteBytes)), routes: map[route]*backlog{}}
}

// sizeOf is about what a record takes in memory, and more than it takes on the wire.
func sizeOf(r *kgo.Record) int {
	n := 300 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 200 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// kept copies what is sent of a record. The record itself would keep its whole fetched
// batch in memory.
func kept(r *kgo.Record) *kgo.Record {
	k := &kgo.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers),
	}
	for i := range k.Headers {
		k.Headers[i].Value = bytes.Clone(k.Headers[i].Value)
	}
	return k
}

func (o *outbox) backlog(key route) *backlog {
	b := o.routes[key]
	if b == nil {
		b = &backlog{last: -1}
		o.routes[key] = b
	}
	return b
}

// owe notes what an earlier owner left to send: records of a route in [from, to) of the
// log.
func (o *outbox) owe(key route, owed offsets) {
	if owed.from < owed.to {
		b := o.backlog(key)
		b.rest, b.last = owed.from, owed.to-1
	}
}

// add takes a record that a turn has just read. It goes into memory. If memory is full, or
// the log holds older owed records, only its offset is noted.
func (o *outbox) add(r *kgo.Record, home int32) {
	b := o.backlog(route{r.Topic, home})
	switch {
	case b.inLog():
	case o.hasRoom(b, r):
		b.append(r)
		return
	default:
		b.rest = r.Offset
	}
	b.last = r.Offset
}

func (o *outbox) hasRoom(b *backlog, r *kgo.Record) bool {
	return len(b.queue) == 0 || b.size+sizeOf(r) <= o.bytes
}

func (b *backlog) inLog() bool { return b.rest <= b.last }

func (b *backlog) append(r *kgo.Record) {
	b.queue = append(b.queue, kept(r))
	b.size += sizeOf(r)
}

func (b *backlog) empty() bool {
	return len(b.queue) == 0 && !b.inLog() && len(b.lost) == 0 && len(b.refused) == 0
}

// wanted returns the offset from which the log should be read. ok is false if no record
// there is owed, or if there is no room.
func (o *outbox) wanted(topic string) (from int64, ok bool) {
	for key, b := range o.routes {
		if key.topic == topic && b.inLog() && b.size <= o.bytes/2 && (!ok || b.rest < from) {
			from, ok = b.rest, true
		}
	}
	return from, ok
}

// fill takes what was read from the log: the misplaced records of a topic in [read.from,
// read.to). A route without room continues there the next time. A route that owes older
// records than these takes none.
func (o *outbox) fill(topic string, read offsets, records []misplaced) {
	full := map[int32]bool{}
	for _, r := range records {
		b := o.routes[route{topic, r.home}]
		if b == nil || full[r.home] || b.rest < read.from || r.Offset < b.rest || r.Offset > b.last {
			continue
		}
		b.rest = r.Offset
		if full[r.home] = !o.hasRoom(b, r.Record); !full[r.home] {
			b.append(r.Record)
			b.rest++
		}
	}
	for key, b := range o.routes {
		if key.topic == topic && b.inLog() && b.rest >= read.from && !full[key.target] {
			b.rest = max(b.rest, read.to)
			o.drop(key, b)
		}
	}
}

// begins takes the first offset of the log. Owed records below it are lost.
func (o *outbox) begins(topic string, start int64) {
	for key, b := range o.routes {
		if key.topic == topic && b.inLog() && b.rest < start {
			b.lost = append(b.lost, offsets{b.rest, min(start, b.last+1)})
			b.rest = start
		}
	}
}

// lostRange is where a route owed records that nobody can read any more.
type lostRange struct {
	route
	offsets
}

// takeLost returns what is lost, each range once. It waits until everything before the
// range is sent, so that owed does not name the range later.
func (o *outbox) takeLost() (all []lostRange) {
	for key, b := range o.routes {
		for b.mayReportLost() {
			all = append(all, lostRange{key, b.lost[0]})
			b.lost = b.lost[1:]
		}
		o.drop(key, b)
	}
	slices.SortFunc(all, func(a, b lostRange) int { return cmp.Or(a.compare(b.route), cmp.Compare(a.from, b.from)) })
	return all
}

func (b *backlog) mayReportLost() bool {
	return len(b.lost) > 0 && (len(b.queue) == 0 || b.queue[0].Offset >= b.lost[0].to)
}

// idle lists the routes that have records in memory and no goroutine. The caller must send
// them, until head returns none.
func (o *outbox) idle() (keys []route) {
	for key, b := range o.routes {
		if len(b.queue) > 0 && !b.sending {
			b.sending = true
			keys = append(keys, key)
		}
	}
	return keys
}

// head returns the next batch of a route. An empty batch ends the sending.
func (o *outbox) head(key route) []*kgo.Record {
	b := o.routes[key]
	if b == nil {
		return nil
	}
	n, size := 0, 0
	for n < len(b.queue) && n < forwardBatch && (n == 0 || size+sizeOf(b.queue[n]) <= forwardBytes) {
		size += sizeOf(b.queue[n])
		n++
	}
	if n == 0 {
		b.sending = false
		o.drop(key, b)
	}
	return b.queue[:n:n]
}

// done removes the first n records of a route, which are acknowledged.
func (o *outbox) done(key route, n int) {
	b := o.routes[key]
	for i, r := range b.queue[:n] {
		b.size -= sizeOf(r)
		b.queue[i] = nil // the backing array lives on
	}
	b.queue = b.queue[n:]
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

// refuse moves the first record of a route to refused, for a turn to record.
func (o *outbox) refuse(key route) {
	b := o.routes[key]
	b.refused = append(b.refused, b.queue[0])
	o.done(key, 1)
}

// hasStuck reports whether takeRefused or takeLost would return something.
func (o *outbox) hasStuck() bool {
	for _, b := range o.routes {
		if len(b.refused) > 0 || b.mayReportLost() {
			return true
		}
	}
	return false
}

// takeRefused returns what was refused, each record once.
func (o *outbox) takeRefused() (all []*kgo.Record) {
	for key, b := range o.routes {
		all = append(all, b.refused...)
		b.refused = nil
		o.drop(key, b)
	}
	slices.SortFunc(all, func(a, b *kgo.Record) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Offset, b.Offset))
	})
	return all
}

// drop forgets a route that owes nothing, unless a goroutine still sends for it.
func (o *outbox) drop(key route, b *backlog) {
	if b.empty() && !b.sending {
		delete(o.routes, key)
	}
}

// owed calls f for every route that may owe a record, with the offset before the first one.
// A successor begins there.
func (o *outbox) owed(f func(key route, before int64)) {
	for key, b := range o.routes {
		if b.empty() {
			continue
		}
		first := b.last + 1
		if b.inLog() {
			first = b.rest
		}
		if len(b.queue) > 0 {
			first = b.queue[0].Offset
		}
		if len(b.lost) > 0 {
			first = min(first, b.lost[0].from)
		}
		if len(b.refused) > 0 {
			first = min(first, b.refused[0].Offset)
		}
		f(key, first-1)
	}
}
