//go:build !linux

package sim

// processWork is not implemented here, so no life counts as standing still.
func processWork(int) (used uint64, running bool) { return 0, true }
