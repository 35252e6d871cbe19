//go:build !linux

package calendar

import "time"

var process = time.Now()

// cpuTime is wall time where a thread's own is not known.
func cpuTime() time.Duration { return time.Since(process) }
