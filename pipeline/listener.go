package pipeline

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Listener is called for what partitions do; metrics and tests implement it. Calls come
// from the partitions' goroutines, so an implementation must be quick and safe for
// concurrent use.
type Listener interface {
	Command(op, result string)
	Forwarded(n int)
	Fired(channel string, p trigger.Priority, late time.Duration)
	Turn(partition int32, records int, took time.Duration)
	Aborted(partition int32, reason string)
	BarrierHeld(partition int32, took time.Duration)
	Restored(partition int32, records int64, took time.Duration)
	DoneEvicted(n int)
	Misfired(policy string, n int)
	// Delivered reports the outcome of a receipt, by channel, after its turn has committed.
	Delivered(channel string, outcome trigger.ReceiptOutcome)
	// DeadLettered reports an occurrence that nobody could deliver, after its turn has
	// committed. The code is a receipt's, or the engine's own.
	DeadLettered(channel, code string)
	// ReceiptTimedOut reports a due event of a channel that got no receipt in time, after
	// the turn has committed.
	ReceiptTimedOut(channel string)
	// QuotaRejected names the limit that refused a tenant's register, after the refusal has
	// committed.
	QuotaRejected(limit string)
	// Leaked reports how many timers an audit found that do not agree with their states.
	Leaked(n int)
	// Step is called at every named step of a turn, for failpoints in tests.
	Step(partition int32, step Step)
}

// NoListener does nothing.
type NoListener struct{}

func (NoListener) Command(string, string)                        {}
func (NoListener) Forwarded(int)                                 {}
func (NoListener) Fired(string, trigger.Priority, time.Duration) {}
func (NoListener) Turn(int32, int, time.Duration)                {}
func (NoListener) Aborted(int32, string)                         {}
func (NoListener) BarrierHeld(int32, time.Duration)              {}
func (NoListener) Restored(int32, int64, time.Duration)          {}
func (NoListener) DoneEvicted(int)                               {}
func (NoListener) Misfired(string, int)                          {}
func (NoListener) Delivered(string, trigger.ReceiptOutcome)      {}
func (NoListener) DeadLettered(string, string)                   {}
func (NoListener) ReceiptTimedOut(string)                        {}
func (NoListener) QuotaRejected(string)                          {}
func (NoListener) Leaked(int)                                    {}
func (NoListener) Step(int32, Step)                              {}
