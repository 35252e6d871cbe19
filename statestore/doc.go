// Package statestore keeps what one partition knows: the encoded state of every trigger, and
// indexes for the engine and its readers. It is one Pebble database per partition, with a
// cache shared by all.
//
// # Who is right
//
// Topic state is. The store is a copy of it, written after Kafka has committed a turn, and
// never synced. Meta has the offset up to which it is written. After a crash the store opens
// as of an earlier batch, and the rest is read from topic state. A store that is damaged, or
// of another format, is put aside and rebuilt.
//
// # Layout
//
// A state, the same bytes as the value on topic state, is stored once, at its
// home; t points there. An entry is a key and what it holds; docs/formats/store.md
// draws the bytes.
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
// Further timers of a trigger have entries in d that hold nothing.
//
// # Promises
//
//   - A batch is applied entirely or not at all, also through a crash.
//   - Counts of pending and finished triggers are exact, also after a crash.
//   - Damage is ErrCorrupt, never a state that was not put: sorted files and
//     the log carry checksums, and pointers are followed both ways.
//   - Get of an unknown key costs a look into memory.
//
// # Duties of the caller
//
//  1. One goroutine owns a Store and its Batches and DueReaders. Others use
//     Snapshots.
//  2. Put and Delete are told the row as it was. A wrong one leaves entries
//     behind that later read as damage.
//  3. After any error but ErrInUse at Open, the store is closed and opened anew.
package statestore
