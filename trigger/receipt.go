package trigger

import "time"

// Receipt is what a channel team says became of one due event.
type Receipt struct {
	Occurrence string
	Step       int
	Channel    string
	Outcome    ReceiptOutcome
	Attempt    int // 0: the attempt in flight
	Postponed  int // how often the emission it is about was postponed; -1: the one in flight
	Code       string
	Detail     string
	RetryAfter time.Duration // 0: the channel's profile decides
	At         Instant       // append time of the receipt; waits count from it
}

// ReceiptOutcome is what became of a due event at the worker.
type ReceiptOutcome uint8

// The outcomes (docs/formats/receipts.md).
const (
	ReceiptDelivered ReceiptOutcome = iota + 1
	ReceiptAccepted
	ReceiptFailed
	ReceiptRetry
	ReceiptPostponed
	ReceiptSuppressed
)

var receiptNames = [...]string{
	ReceiptDelivered: "delivered", ReceiptAccepted: "accepted", ReceiptFailed: "failed",
	ReceiptRetry: "retry", ReceiptPostponed: "postponed", ReceiptSuppressed: "suppressed",
}

func (o ReceiptOutcome) String() string { return receiptNames[o] }

// ParseReceiptOutcome finds an outcome by its contract name.
func ParseReceiptOutcome(s string) (ReceiptOutcome, bool) {
	for i, n := range receiptNames {
		if n != "" && n == s {
			return ReceiptOutcome(i), true
		}
	}
	return 0, false
}
