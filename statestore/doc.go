// Package statestore keeps the data of one partition: the encoded state of every trigger, and
// indexes for the engine and its readers. It is one Pebble database per partition, with a cache
// shared by all.
//
// # Source of truth
//
// The source of truth is topic state. The store is a copy of it. A turn is written to the store
// after Kafka has committed it, and the store is never synced. Meta has the offset up to which it
// is written. After a crash the store opens as of an earlier batch, and the rest is read from
// topic state. A store that is damaged, or of another format, is put aside and rebuilt.
//
// # Layout
//
// A state has the same bytes as the value on topic state. It is stored once, in its home entry,
// and t points there. Each line shows a key and its value; docs/formats/store.md draws the bytes.
//
//	d <due 8><priority><key>0<kind><occurrence>   → state, or nothing     due index
//	m /<name>                                     → the caller's bytes    meta
//	t <key>                                       → pointer, or state     by key
//	u <tenant>0<user>0<next due 8><key>           → nothing               by user
//	y <forget at 8><key>                          → state                 by end of horizon
//	z <zone>0<key>                                → nothing               by zone
//
//	a state with     lives                                so that
//	timers           in d, under the earliest timer       firing is one sequential scan
//	ForgetAt         in y                                 forgetting is one, too
//	neither          in t (paused)                        it costs one entry
//
// The other timers of a trigger have empty entries in d.
//
// # Promises
//
//   - A batch is applied entirely or not at all, also through a crash.
//   - Counts of pending and finished triggers are exact, also after a crash.
//   - Damage is ErrCorrupt, never a state that was not put: sorted files and
//     the log have checksums, and pointers are checked in both directions.
//   - Get of an unknown key nearly always needs only a lookup in memory.
//
// # Duties of the caller
//
//  1. One goroutine owns a Store and its Batches and DueReaders. Others use
//     Snapshots.
//  2. Put and Delete get the row as it was. A wrong old row leaves entries
//     behind that later read as damage.
//  3. After any error, except ErrInUse from Open, close the store and open it
//     anew.
package statestore
