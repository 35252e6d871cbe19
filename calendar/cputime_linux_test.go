package calendar

import (
	"syscall"
	"time"
)

// cpuTime is what the calling thread has used: on a busy machine a bound on it
// holds where one on wall time would not.
func cpuTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	_ = syscall.Getrusage(thread, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
