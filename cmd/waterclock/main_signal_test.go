//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first signal asks a verb to end. One that waits for its standard input cannot, so the
// second signal ends the process.
func TestSecondSignalEnds(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "preview", "--jsonl")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte(`{"delay":"1m"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<10)
	n, err := out.Read(answer) // from here on it waits for more input, and handles signals
	if err != nil || !strings.HasPrefix(string(answer[:n]), "{") {
		t.Fatalf("answered %q: %v", answer[:n], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			var how *exec.ExitError
			if !errors.As(err, &how) || how.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("it ended with %v", err)
			}
			return
		case <-tick.C:
		}
	}
	t.Error("it goes on")
	_ = cmd.Process.Kill()
}
