// Package slo says from an export whether triggers fired on time: exact percentiles of
// lateness, an error budget, and how fast it burns.
//
//	files ──▶ Fold.Add ──▶ counts, histograms ──▶ Report ──▶ table, JSON, page
//	   └────▶ Fold.Add, once more for each percentile that lies in a wide bucket
//
// # What counts
//
// A fire counts in the window in which it was due (scheduled_at). It is the first emission of
// an occurrence of the plan: attempt 1, step 0. Snoozes, run_now, retries, postponed and
// redriven deliveries and further steps do not count, because nobody planned them long before.
//
// The budget is spent by fires later than the objective, and by occurrences that expired or
// became dead letters before they ever went out. Misfired and other dead-lettered ones are
// counted beside it: what misfires and then fires is late anyway, and so is what went out.
//
// # Promises
//
//   - Percentiles are exact, by nearest rank. A histogram has a bucket for each millisecond
//     below 1,024, and 512 for each power of two above. Where a percentile lies in a wider
//     bucket the files are read once more, for that bucket alone.
//   - Memory is bounded: by the hours of the window, by MaxTenants, and by 16 bytes or so for
//     each trigger of one partition whose priority is not normal.
//   - Two runs over the same files say the same.
package slo
