package attack

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// machine is what the processors have done, in ticks: all of them in all, those that
// were busy, and those that were so for this test and its node.
type machine struct{ all, busy, ours float64 }

// machine reads it from /proc.
func (n *node) machine(t *testing.T) (m machine) {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, text := range strings.Fields(line)[1:] {
		ticks, _ := strconv.ParseFloat(text, 64)
		if i < 8 { // what guests have is in user already
			m.all += ticks
		}
		if i != 3 && i != 4 && i < 8 { // idle, iowait
			m.busy += ticks
		}
	}
	m.ours = ticksOf(t, os.Getpid())
	for _, p := range n.processes {
		m.ours += ticksOf(t, p.cmd.Process.Pid)
	}
	return m
}

// ticksOf is the user and system time of a process.
func ticksOf(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatalf("a process is gone: %v", err)
	}
	text := string(b)
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	user, _ := strconv.ParseFloat(words[11], 64)
	system, _ := strconv.ParseFloat(words[12], 64)
	return user + system
}

// othersSince is the share of the processors that others had.
func (m machine) othersSince(before machine) float64 {
	return (m.busy - before.busy - m.ours + before.ours) / max(1, m.all-before.all)
}
