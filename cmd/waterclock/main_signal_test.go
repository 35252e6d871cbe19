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
// second signal ends the process. One that the first signal reaches just before it waits ends by
// itself; then another one is tried.
func TestSecondSignalEnds(t *testing.T) {
	for range 100 {
		var how *exec.ExitError
		err := endedBySignals(t)
		if !errors.As(err, &how) {
			t.Fatalf("it ended with %v", err)
		}
		if how.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT {
			return
		}
		if how.ExitCode() != exitFailed {
			t.Fatalf("it ended with %v", err)
		}
	}
	t.Error("no second signal ended it")
}

// endedBySignals interrupts a preview that waits for more input until it ends, and returns how.
func endedBySignals(t *testing.T) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "preview", "--jsonl")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
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
	n, err := out.Read(answer) // from here on it handles signals, and soon waits for more input
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
			return err
		case <-tick.C:
		}
	}
	_ = cmd.Process.Kill()
	t.Fatal("it goes on")
	return nil
}
