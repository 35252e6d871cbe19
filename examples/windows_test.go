package examples

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWindows runs the consumer of the page about watermarks. Each window is printed once, in order,
// and not before its end. What is registered for a time that is complete counts later.
func TestWindows(t *testing.T) {
	d := startDev(t, "--set", "watermarks.interval=100ms", "--set", "watermarks.idle_interval=200ms")
	bin := filepath.Join(t.TempDir(), "windows")
	build(t, bin, "./windows")
	consumer := d.command(t, bin, "-brokers", d.kafka, "-window", "1s")
	out, err := consumer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = consumer.Process.Signal(syscall.SIGTERM)
		_ = consumer.Wait()
	}()
	schedule := func(id string, at time.Time) {
		t.Helper()
		if out, err := d.command(t, d.bin, "schedule", id, "--channel", "orders", "--at",
			at.UTC().Format(time.RFC3339Nano)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	lines := bufio.NewScanner(out)
	next := func(end time.Time) (at time.Time, rest string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the consumer ended: %v", lines.Err())
		}
		if now := time.Now(); now.Before(end) {
			t.Errorf("%q is complete at %s", lines.Text(), now)
		}
		first, rest, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339, first)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		return at, rest
	}
	begin := time.Now().Add(4 * time.Second).Truncate(time.Second)
	for i := range 8 { // over all partitions, with high probability
		schedule(fmt.Sprintf("a%d", i), begin.Add(time.Duration(i)*100*time.Millisecond))
	}
	schedule("b", begin.Add(time.Second))
	if at, rest := next(begin.Add(time.Second)); !at.Equal(begin) || rest != "orders 8" {
		t.Errorf("the first window is %s with %s, want %s", at, rest, begin)
	}
	if at, rest := next(begin.Add(2 * time.Second)); !at.Equal(begin.Add(time.Second)) || rest != "orders 1" {
		t.Errorf("the second window is %s with %s", at, rest)
	}
	schedule("late", begin)
	if at, rest := next(begin.Add(2 * time.Second)); at.Before(begin.Add(2*time.Second)) || rest != "orders 1" {
		t.Errorf("what was registered late is in %s with %s, and that was complete", at, rest)
	}
}
