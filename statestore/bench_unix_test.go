//go:build unix

package statestore

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of the process, including compactions.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
