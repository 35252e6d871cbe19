//go:build failpoints

package pipeline

// linger: every record goes at once, so that a transaction is open at every
// step, as it is in a turn of more than one batch.
const linger = 0
