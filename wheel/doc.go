// Package wheel says which of a partition's near triggers are due. It has no
// goroutine, no lock and no clock: the caller brings the time.
//
// # Model
//
// A ring of buckets of 256 ms covers the window. A bucket is a chain of
// chunks that only grow at the end; when the hand reaches it, it is opened:
// its entries are counting-sorted by millisecond into one slice, each
// millisecond's run is sorted by ref, and the chunks go back to the free list.
//
//	             hand
//	              ▼
//	──────────┬─ open ─┬────────┬────────┬── … ──┬────────┬──────────────
//	 late     │ sorted │ 256 ms │ 256 ms │       │ 256 ms │ beyond End():
//	 run+heap │ slice  │ chunks │ chunks │       │ chunks │ Add says false
//	──────────┴────────┴────────┴────────┴── … ──┴────────┴──────────────
//
// What is added when its bucket is already open, or past, is late. Late
// entries in ascending order (the store's scan after downtime) extend a sorted
// run at O(1); the others go to a small heap. Advance merges the three.
//
// A bucket with a herd may be opened before its time (Prepare): to order a
// quarter of a million takes tens of milliseconds.
//
// # Source of truth
//
// statestore is. The wheel is a cache of the near part of its due index
// and may be dropped at any moment; rebuilding it is one range scan. Entries
// are never removed one by one: a cancelled one comes out and is filtered
// against the store by the caller.
//
// # Promises
//
//   - Never early: an entry comes out only once now >= due.
//   - Never late by the wheel's doing: due times are exact to the millisecond.
//   - In order (due, ref), which is the order of the due index; what is added
//     behind the hand comes out first at the next Advance.
//   - Add is O(1) amortised (O(log late) behind the hand, out of order), Next
//     is O(1) amortised, an entry costs 17 bytes beside its string.
//   - In the steady state nothing is allocated.
//
// A time that goes backwards breaks nothing: what is due by the older time
// comes out, the rest waits.
package wheel
