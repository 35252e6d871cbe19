package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// cpuTime returns the CPU time that a process has used, in ticks. It reads one file. Linux walks
// all that was read of a process in /proc when each of its threads ends; the files of all threads,
// read twice a second, took a tenth of a life's CPU.
func cpuTime(pid int) uint64 {
	_, used := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return used
}

// waits reports whether none of a process's threads runs, could run, or waits for a disk.
func waits(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range threads {
		if state, _ := stat(name); state == "R" || state == "D" {
			return false
		}
	}
	return true
}

// stat reads a file of proc(5): pid (comm) state, then 10 fields, utime, stime. A thread that has
// ended has no state.
func stat(name string) (state string, used uint64) {
	text, err := os.ReadFile(name)
	if err != nil {
		return "", 0
	}
	_, text, _ = bytes.Cut(text, []byte(") "))
	fields := bytes.Fields(text)
	if len(fields) < 13 {
		return "", 0
	}
	for _, ticks := range fields[11:13] {
		var n uint64
		_, _ = fmt.Sscan(string(ticks), &n)
		used += n
	}
	return string(fields[0]), used
}
