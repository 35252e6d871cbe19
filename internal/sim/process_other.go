//go:build !linux

package sim

// cpuTime is not implemented here.
func cpuTime(int) uint64 { return 0 }

// waits is not implemented here, so no life counts as standing still.
func waits(int) bool { return false }
