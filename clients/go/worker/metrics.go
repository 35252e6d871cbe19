package worker

import "time"

// Metrics receives the measurements of one worker. Calls come from many goroutines and must be
// fast. Embed NoMetrics in your type, so that it still compiles when a later version adds a
// method.
type Metrics interface {
	// Handled is called for a due event that has its result. took is the run time of the handler.
	Handled(outcome Outcome, code string, took time.Duration)
	// Skipped is called for an event that is not handled and gets no receipt.
	Skipped(reason SkipReason)
	// Abandoned is called for an event whose handler did not finish before its partition moved or
	// the worker ended. It will be delivered again.
	Abandoned()
	// Garbled is called for a record that is not a due event. header is the wrong header, by its
	// name in the contract.
	Garbled(header string)
	// ReceiptWritten is called once the brokers have acknowledged a receipt. took is the time
	// from the result to the acknowledgement.
	ReceiptWritten(took time.Duration)
	// ReceiptFailed is called when writing a receipt fails. The worker tries again.
	ReceiptFailed()
	// CommitFailed is called when a commit of offsets fails.
	CommitFailed()
	// Load reports what is in memory, about once per commit interval.
	Load(Load)
}

// Load is the current load of a worker.
type Load struct {
	Running  int   // running handlers
	Ready    int   // events that could run and wait for a handler
	Buffered int   // events in memory, including running and ready ones
	Bytes    int64 // bytes of these
	Pending  int   // receipts that are not acknowledged yet
	Assigned int   // assigned partitions
	Paused   int   // of these: full and not fetched
	Held     int   // of these: waiting until the receipts topic has been read

	// ClockAhead is how far the brokers' clock is ahead of ours.
	ClockAhead time.Duration
}

// NoMetrics ignores all measurements.
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
