package preferences

import "time"

// Codes of receipts of messages that a user has had enough of.
const (
	CodeDuplicate = "duplicate" // one of this type was sent within dedup_window
	CodeCapped    = "capped"    // as many were sent as max_per_user allows
)

// Cap is a bound on the messages to one user on one channel: at most Most of them in
// any stretch of time that is Within long.
type Cap struct {
	Most   int
	Within time.Duration
}
