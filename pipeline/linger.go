//go:build !failpoints

package pipeline

import "time"

// linger keeps a small batch until the flush of the turn, which sends the rest as one
// request. Full batches go at once.
const linger = time.Minute
