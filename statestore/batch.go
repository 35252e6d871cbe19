package statestore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// Batch is everything that one turn changes. It is applied at once, after Kafka has committed
// the turn. The caller must not change what it passed to Put before Commit.
type Batch struct {
	store   *Store
	ops     [len(tables)][]op
	keys    []byte // keys of all ops, and small values
	counts  counts // changes to the pending and done counts
	dueFrom trigger.Instant
	forFrom trigger.Instant
	gone    []uint64 // hashes of the deleted keys
	err     error    // the first invalid call

	was, is []trigger.Timer
	sorted  []slot
}

// op sets or deletes one entry. Its key is in Batch.keys, and so is its value, unless the
// caller owns that.
type op struct {
	key      span
	small    span   // value
	value    []byte // the caller's value, if not nil
	deletion bool
}

type span struct{ from, to uint32 }

// NewBatch makes an empty batch.
func (s *Store) NewBatch() *Batch {
	b := &Batch{store: s}
	b.Reset()
	return b
}

// Reset empties a batch without applying it. Commit empties it, too. So one batch serves all
// turns, and its memory is allocated once.
func (b *Batch) Reset() {
	for i := range b.ops {
		clear(b.ops[i])
		b.ops[i] = b.ops[i][:0]
	}
	b.keys, b.gone = b.keys[:0], b.gone[:0]
	b.counts = counts{}
	b.dueFrom, b.forFrom = forever, forever
	b.err = nil
}

// Put stores a state. old is the row as it is in the store and in this batch; nil if the key
// is unknown. old.Value is not used.
func (b *Batch) Put(old *Row, row Row) {
	if err := errors.Join(row.check(), b.checkOld(old, row.Key)); err != nil {
		b.fail(err)
		return
	}
	b.count(&row, 1)
	b.is = sortedTimers(b.is, row.Timers)
	to := pointTo(&row, b.is)
	if old == nil {
		old = &Row{Key: row.Key}
		b.was = b.was[:0]
		b.setPointer(row.Key, to)
		b.store.known.add(b.store.known.hash(row.Key))
	} else {
		b.count(old, -1)
		b.was = sortedTimers(b.was, old.Timers)
		if !to.sameAs(pointTo(old, b.was)) {
			b.setPointer(row.Key, to)
		}
	}
	b.putTimers(&row)
	b.putDone(old, &row)
	b.putUser(old, &row)
	b.putZone(old, &row)
}

// Delete removes a trigger. old is as for Put.
func (b *Batch) Delete(old Row) {
	if err := b.checkOld(&old, old.Key); err != nil {
		b.fail(err)
		return
	}
	b.count(&old, -1)
	b.gone = append(b.gone, b.store.known.hash(old.Key))
	b.delete(tableKey, func(k []byte) []byte { return appendStateKey(k, old.Key) })
	none := Row{Key: old.Key}
	b.was, b.is = sortedTimers(b.was, old.Timers), b.is[:0]
	b.putTimers(&none)
	b.putDone(&old, &none)
	b.putUser(&old, &none)
	b.putZone(&old, &none)
}

// checkOld checks the caller's old row, as far as that is cheap. A wrong one would leave
// counts and filter wrong for ever.
func (b *Batch) checkOld(old *Row, key trigger.Key) error {
	switch {
	case old == nil:
		return nil
	case old.Key != key:
		return fmt.Errorf("row %q: its old row is of %q", key, old.Key)
	case !b.store.known.has(b.store.known.hash(key)):
		return fmt.Errorf("row %q: it is unknown, but an old row is given", key)
	}
	return nil
}

func (b *Batch) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *Batch) count(r *Row, by int64) {
	if r.finished() {
		b.counts.done += by
	} else {
		b.counts.pending += by
	}
}

func (b *Batch) setPointer(key trigger.Key, to pointer) {
	k := b.key(func(k []byte) []byte { return appendStateKey(k, key) })
	v := b.key(to.appendTo)
	b.add(tableKey, op{key: k, small: v})
}

// putTimers replaces the timers b.was by b.is in table d. The first timer's entry has the
// state.
func (b *Batch) putTimers(row *Row) {
	was, is := b.was, b.is
	for i, j := 0, 0; i < len(was) || j < len(is); {
		switch c := compareAt(was, i, is, j); {
		case c < 0:
			b.deleteTimer(was[i], row.Key)
			i++
		case c > 0:
			b.setTimer(j, row)
			j++
		default:
			if i == 0 || j == 0 {
				b.setTimer(j, row)
			}
			i++
			j++
		}
	}
}

// compareAt compares was[i] with is[j] by compareTimers. The end of a slice sorts last.
func compareAt(was []trigger.Timer, i int, is []trigger.Timer, j int) int {
	switch {
	case i == len(was):
		return 1
	case j == len(is):
		return -1
	}
	return compareTimers(was[i], is[j])
}

func (b *Batch) setTimer(j int, row *Row) {
	t := b.is[j]
	b.dueFrom = min(b.dueFrom, t.Due)
	o := op{key: b.key(func(k []byte) []byte { return appendTimerKey(k, t, row.Key) })}
	if j == 0 {
		o.value = row.Value
	}
	b.add(tableDue, o)
}

func (b *Batch) deleteTimer(t trigger.Timer, key trigger.Key) {
	b.delete(tableDue, func(k []byte) []byte { return appendTimerKey(k, t, key) })
}

// putDone maintains table y. A row has an entry there while ForgetAt is set. The entry holds the
// state, unless an entry of a timer does.
func (b *Batch) putDone(old, row *Row) {
	was, is := max(old.ForgetAt, 0), max(row.ForgetAt, 0)
	if old.ForgetAt != 0 && (row.ForgetAt == 0 || was != is) {
		b.delete(tableDone, func(k []byte) []byte { return appendDoneKey(k, was, old.Key) })
	}
	if row.ForgetAt == 0 {
		return
	}
	b.forFrom = min(b.forFrom, is)
	o := op{key: b.key(func(k []byte) []byte { return appendDoneKey(k, is, row.Key) })}
	if row.finished() {
		o.value = row.Value
	}
	b.add(tableDone, o)
}

// putUser maintains the list by user; b.was and b.is are the timers.
func (b *Batch) putUser(old, row *Row) {
	was, is := nextDue(b.was), nextDue(b.is)
	if old.User == row.User && old.Tenant == row.Tenant && was == is {
		return
	}
	if old.User != "" {
		b.delete(tableUser, func(k []byte) []byte { return appendUserKey(k, old.Tenant, old.User, was, old.Key) })
	}
	if row.User != "" {
		b.set(tableUser, func(k []byte) []byte { return appendUserKey(k, row.Tenant, row.User, is, row.Key) })
	}
}

// putZone maintains the list by zone.
func (b *Batch) putZone(old, row *Row) {
	if old.Zone == row.Zone {
		return
	}
	if old.Zone != "" {
		b.delete(tableZone, func(k []byte) []byte { return appendZoneKey(k, old.Zone, old.Key) })
	}
	if row.Zone != "" {
		b.set(tableZone, func(k []byte) []byte { return appendZoneKey(k, row.Zone, row.Key) })
	}
}

// SetMeta stores bytes under a name that the caller chooses. The store itself uses "format" and
// "counts".
func (b *Batch) SetMeta(name string, value []byte) {
	if name == metaFormat || name == metaCounts || name == "" {
		b.fail(fmt.Errorf("meta name %q is not the caller's", name))
		return
	}
	b.setMeta(name, value)
}

func (b *Batch) setMeta(name string, value []byte) {
	b.add(tableMeta, op{
		key:   b.key(func(k []byte) []byte { return append(k, metaKey(name)...) }),
		small: b.key(func(k []byte) []byte { return append(k, value...) }),
	})
}

// Len is the number of entries set or deleted.
func (b *Batch) Len() (n int) {
	for _, ops := range b.ops {
		n += len(ops)
	}
	return n
}

// key appends bytes to b.keys.
func (b *Batch) key(appendTo func([]byte) []byte) span {
	from := len(b.keys)
	b.keys = appendTo(b.keys)
	return span{uint32(from), uint32(len(b.keys))}
}

func (b *Batch) set(t table, appendKey func([]byte) []byte) { b.add(t, op{key: b.key(appendKey)}) }

func (b *Batch) delete(t table, appendKey func([]byte) []byte) {
	b.add(t, op{key: b.key(appendKey), deletion: true})
}

func (b *Batch) add(t table, o op) {
	i := slices.Index(tables[:], t)
	b.ops[i] = append(b.ops[i], o)
}

func (b *Batch) bytes(s span) []byte { return b.keys[s.from:s.to:s.to] }

// Commit applies the batch, all or nothing, and empties it. It sorts the batch by key, which
// saves Pebble a third of the CPU. It does not sync, because Kafka is the log.
func (b *Batch) Commit() error {
	defer b.Reset()
	err := b.err
	if err == nil {
		err = b.store.usable()
	}
	if err == nil {
		err = b.commit()
	}
	if err != nil {
		return failed("commit batch", err)
	}
	for _, h := range b.gone {
		b.store.known.remove(h)
	}
	s := b.store
	s.firstDue = min(s.firstDue, b.dueFrom)
	s.firstFor = min(s.firstFor, b.forFrom)
	return nil
}

func (b *Batch) commit() error {
	total := counts{pending: b.store.counts.pending + b.counts.pending, done: b.store.counts.done + b.counts.done}
	if total.pending < 0 || total.done < 0 {
		return fmt.Errorf("counts would be %d pending, %d done: a row was deleted twice", total.pending, total.done)
	}
	if b.counts != (counts{}) {
		b.setMeta(metaCounts, total.encode())
	}
	pb := b.store.db.NewBatchWithSize(b.size(), pebble.WithMaxRetainedSizeBytes(keptBatch))
	defer pb.Close()
	for i := range b.ops {
		if err := b.write(pb, b.ops[i]); err != nil {
			return err
		}
	}
	if err := b.store.apply(pb); err != nil {
		return err
	}
	b.store.pace.Committed(pb.Len())
	b.store.setCounts(total)
	return b.store.flushSometimes()
}

// flushSometimes begins a flush, with DisableWAL, if the last one that began here is long ago.
func (s *Store) flushSometimes() error {
	if !s.opts.DisableWAL || time.Since(s.flushed) < s.opts.FlushEvery {
		return nil
	}
	s.flushed = time.Now()
	_, err := s.db.AsyncFlush()
	return err
}

// apply commits a Pebble batch. No snapshot is taken during the commit of a large one: Pebble puts
// a batch of more than half a memtable into the queue of its flushes before the batch is visible.
// A flush that begins in between drops the rows that the batch replaces, and a snapshot that is
// taken in between needs them (cockroachdb/pebble issue 6085).
func (s *Store) apply(pb *pebble.Batch) error {
	if pb.Len()+int(pb.Count())*memTableEntry >= s.opts.MemTableBytes/2-memTableEntry {
		s.publishing.Lock()
		defer s.publishing.Unlock()
	}
	return pb.Commit(pebble.NoSync)
}

// memTableEntry is more than what an entry of a memtable takes besides its key and value.
const memTableEntry = 512

// keptBatch is the batch size up to which Pebble reuses the memory.
const keptBatch = 4 << 20

// size estimates the size of the Pebble batch.
func (b *Batch) size() int {
	n := 64 + len(b.keys)
	for _, ops := range b.ops {
		n += 8 * len(ops)
		for _, o := range ops {
			n += len(o.value)
		}
	}
	return n
}

// write passes the ops of one table to Pebble in the order of their keys. Of several ops on
// one key it passes the last.
func (b *Batch) write(pb *pebble.Batch, ops []op) error {
	sorted, shared := b.sort(ops)
	for i, p := range sorted {
		key := b.bytes(ops[p.op].key)
		if i+1 < len(sorted) && p.order == sorted[i+1].order &&
			bytes.Equal(key[shared:], b.bytes(ops[sorted[i+1].op].key)[shared:]) {
			continue
		}
		if err := b.writeOp(pb, key, ops[p.op]); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) writeOp(pb *pebble.Batch, key []byte, o op) error {
	switch {
	case o.deletion:
		return pb.Delete(key, nil)
	case o.value != nil:
		return pb.Set(key, o.value, nil)
	}
	return pb.Set(key, b.bytes(o.small), nil)
}
