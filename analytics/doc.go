// Package analytics writes the event log as a data set: Parquet files that DuckDB, Polars
// and PyArrow read, and a chain of manifests that says what is in them.
//
//	events/date=2026-11-25/p=03/<first>-<last>.parquet   sealed: created only if absent; never changes
//	tail/p=03.parquet                                    what is newer; rewritten as it grows
//	snapshots/date=2026-11-25/p=03.parquet               all triggers at the end of that day
//	manifest/<n>.json                                    created only if absent; names the one before by its hash
//	tmp/                                                 files that are not finished
//
// # Source of truth
//
// The topic is. A manifest says up to which offset of each partition the files are
// complete. A file that no manifest names is the work of a process that died or is not
// done yet. The next export names it as it is.
//
// # Promises
//
//   - The sealed files have each committed record of the offsets of the manifest, once.
//     Aborted records are not in them.
//   - Bounds of files follow from offsets, the days of events and accepted gaps, never from the clock.
//     The same build writes the same bytes, so any number of exporters may run at once.
//     They need no coordinator: who loses the race for a manifest reads the winner's and
//     goes on behind it.
//   - What the tail has is exported: if the log loses it, the next tail and the sealed file have
//     it still.
//   - A snapshot follows from the one before and the sealed files since, so it is as equal
//     in its bytes as they are. Its memory does not grow with the number of triggers.
//   - A manifest names a watermark of a partition only if everything first due at or before
//     it is in the files that are named by then.
//   - A crash between any two steps leaves a directory that the next export completes.
//   - No payload is in the files. User ids and tags are keyed hashes, or absent, unless
//     Options.Users says otherwise.
//
// docs/formats/export.md draws the files, docs/analytics/export.md says how to use them.
package analytics
