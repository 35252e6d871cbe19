package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// processWork returns the CPU time of a process, in ticks, and whether one of its threads runs,
// could run, or waits for a disk.
func processWork(pid int) (used uint64, running bool) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// proc(5): pid (comm) state, then 10 fields, utime, stime
		_, fields, _ := bytes.Cut(text, []byte(") "))
		var state string
		var skip, utime, stime uint64
		f := bytes.NewReader(fields)
		_, _ = fmt.Fscan(f, &state)
		for range 10 {
			_, _ = fmt.Fscan(f, &skip)
		}
		_, _ = fmt.Fscan(f, &utime, &stime)
		used += utime + stime
		running = running || state == "R" || state == "D"
	}
	return used, running
}
