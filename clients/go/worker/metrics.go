package worker

import "time"

// Metrics takes the numbers of one worker. Calls come from many goroutines and
// must be fast. A type of yours should embed NoMetrics, so that it compiles
// when a later version adds a method.
type Metrics interface {
	// Handled is a due event that has its result, and how long the handler took.
	Handled(outcome Outcome, code string, took time.Duration)
	// Skipped is one that was not handled and gets no receipt.
	Skipped(reason SkipReason)
	// Abandoned is one whose handler did not finish before its partition moved
	// or the worker ended. It is delivered again.
	Abandoned()
	// Garbled is a record that is no due event; header is the one at fault, one
	// of the contract's names.
	Garbled(header string)
	// ReceiptWritten is a receipt that the brokers have acknowledged, and how
	// long that took.
	ReceiptWritten(took time.Duration)
	// ReceiptFailed is a try to write a receipt that failed. It is tried anew.
	ReceiptFailed()
	// CommitFailed is a failed commit of offsets.
	CommitFailed()
	// Load is what is in memory, about every commit interval.
	Load(Load)
}

// Load is what a worker holds.
type Load struct {
	Running  int   // handlers that run
	Ready    int   // events that wait for a handler and could run
	Buffered int   // events in memory, running and ready ones among them
	Bytes    int64 // of these
	Pending  int   // receipts that are not acknowledged
	Assigned int   // partitions
	Paused   int   // of these: full, not fetched
	Held     int   // of these: the receipts topic is not read yet

	// ClockAhead is by how much the brokers' clock is ahead of ours.
	ClockAhead time.Duration
}

// NoMetrics does nothing.
type NoMetrics struct{}

type noMetrics = NoMetrics

func (NoMetrics) Handled(Outcome, string, time.Duration) {}
func (NoMetrics) Skipped(SkipReason)                     {}
func (NoMetrics) Abandoned()                             {}
func (NoMetrics) Garbled(string)                         {}
func (NoMetrics) ReceiptWritten(time.Duration)           {}
func (NoMetrics) ReceiptFailed()                         {}
func (NoMetrics) CommitFailed()                          {}
func (NoMetrics) Load(Load)                              {}
