//go:build !failpoints

package pipeline

import "time"

// linger: full batches go at once, the rest as one request when the turn is
// flushed.
const linger = time.Minute
