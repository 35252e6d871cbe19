package sim

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestWork checks that a process that works is seen to work, and one that sleeps is not.
func TestWork(t *testing.T) {
	if before := cpuTime(os.Getpid()); before == cpuTimeAfterWork(before) {
		t.Errorf("this process has used %d ticks, and no more after a minute of work", before)
	}
	if waits(os.Getpid()) {
		t.Error("this process runs, but counts as one that waits")
	}
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	for begin := time.Now(); !waits(child.Process.Pid); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("a process that sleeps counts as one that runs")
		}
	}
}

// cpuTimeAfterWork works until this process has used more than before, for a minute at most.
func cpuTimeAfterWork(before uint64) (used uint64) {
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if used = cpuTime(os.Getpid()); used != before {
			break
		}
	}
	return used
}
