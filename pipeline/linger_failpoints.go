//go:build failpoints

package pipeline

// linger sends every record at once. So a transaction is open at every step, as in a turn
// of more than one batch.
const linger = 0
