package sim

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhyStuck checks that only the known cases in kgo permit another try.
func TestWhyStuck(t *testing.T) {
	const holder = `goroutine 31 [select (durable), synctest bubble 1]:
github.com/twmb/franz-go/pkg/kgo.(*Client).shardedRequest(0xc000, {0x1, 0x2})
github.com/twmb/franz-go/pkg/kgo.(*Client).doInitProducerID(0xc000, 0xc001, 0x7, 0x1)
github.com/twmb/franz-go/pkg/kgo.(*Client).EndTransaction(0xc000, {0x1, 0x2}, 0x1)`
	const waiter = `goroutine 44 [sync.Mutex.Lock, synctest bubble 1]:
internal/sync.(*Mutex).lockSlow(0xc0004)
github.com/twmb/franz-go/pkg/kgo.(*producer).promiseBatch(0xc000, {0x1, 0x2})`
	const ours = `goroutine 44 [sync.Mutex.Lock, synctest bubble 1]:
internal/sync.(*Mutex).lockSlow(0xc0004)
github.com/waterclock/waterclock/pipeline.(*Partition).turn(0xc000)`
	const assigns = `goroutine 51 [sync.Cond.Wait (durable), synctest bubble 1]:
github.com/twmb/franz-go/pkg/kgo.(*consumer).stopSession(0xc000)
github.com/twmb/franz-go/pkg/kgo.(*consumer).assignPartitions(0xc000, 0x0, 0x2)`
	const polls = `goroutine 32 [sync.Mutex.Lock, synctest bubble 1]:
internal/sync.(*Mutex).lockSlow(0xc0004)
github.com/twmb/franz-go/pkg/kgo.(*Client).PollRecords.func3()`
	for _, c := range []struct {
		name  string
		dump  []string
		known bool
	}{
		{"kgo waits for kgo", []string{"SIGQUIT: quit", waiter, holder}, true},
		{"kgo polls while it takes an assignment", []string{assigns, polls}, true},
		{"nobody waits for the mutex", []string{holder}, false},
		{"nobody polls", []string{assigns, waiter}, false},
		{"nobody asks for an id", []string{waiter}, false},
		{"the engine waits", []string{holder, ours}, false},
		{"nothing", nil, false},
	} {
		if err := whyStuck(Plan{}, strings.Join(c.dump, "\n\n")); errors.Is(err, ErrStoodStill) != c.known {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestProcessThatStandsStill checks that the process is ended and the plan does not run once
// more.
func TestProcessThatStandsStill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("who stands still is only known on Linux")
	}
	begun := 0
	p := Process{Stuck: time.Second, Command: func(ctx context.Context, _ Plan) *exec.Cmd {
		begun++
		return exec.CommandContext(ctx, "sleep", "600")
	}}
	_, stood, err := p.Run(t.Context(), Plan{Seed: 7})
	if err == nil || errors.Is(err, ErrStoodStill) || !strings.Contains(err.Error(), "--seed 7") || stood != 0 ||
		begun != 1 {
		t.Errorf("%v, stood still %d times, begun %d times", err, stood, begun)
	}
}

// TestProcessThatStalls checks that a process that works without an end is ended, with its plan in
// the error, and that the plan does not run once more.
func TestProcessThatStalls(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"no progress", "while :; do :; done"},
		{"progress, and then none", "echo >&3; echo >&3; while :; do :; done"},
		{"it hears of no signal", "trap '' QUIT; while :; do :; done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := 0
			p := Process{Stall: time.Second, Dump: time.Second, Command: func(ctx context.Context, _ Plan) *exec.Cmd {
				begun++
				return exec.CommandContext(ctx, "sh", "-c", "echo dump; "+c.script)
			}}
			_, stood, err := p.Run(t.Context(), Plan{Seed: 7})
			if err == nil || errors.Is(err, ErrStoodStill) || stood != 0 || begun != 1 {
				t.Fatalf("%v, stood still %d times, begun %d times", err, stood, begun)
			}
			for _, want := range []string{"--seed 7", "simulated time stands still", "dump"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}

// TestProcessThatMoves checks that a process lives longer than the limit if it reports progress,
// and that the reports are no part of the outcome.
func TestProcessThatMoves(t *testing.T) {
	const script = `i=0; while [ $i -lt 40 ]; do echo >&3; sleep 0.1; i=$((i+1)); done; echo '{"Fired":3}' >&3`
	p := Process{Stuck: time.Hour, Stall: 3 * time.Second, Command: func(ctx context.Context, _ Plan) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", script)
	}}
	if o, _, err := p.Run(t.Context(), Plan{}); err != nil || o.Fired != 3 {
		t.Errorf("%+v %v", o, err)
	}
}

// TestReportProgress checks that a process reports only while simulated time moves.
func TestReportProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var to bytes.Buffer
		var minutes atomic.Int64
		stop := make(chan struct{})
		go reportProgress(&to, &minutes, stop)
		for range 3 {
			minutes.Add(2)
			time.Sleep(time.Second + time.Millisecond)
		}
		time.Sleep(time.Hour)
		close(stop)
		synctest.Wait()
		if to.String() != "\n\n\n" {
			t.Errorf("%q", to.String())
		}
	})
}

// TestMinutes checks that a life that goes on for ever makes progress only up to its limit, and
// none once it is done.
func TestMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved atomic.Int64
		go minutes(time.Now().Add(time.Hour), nil, func() { moved.Add(1) })
		time.Sleep(3 * time.Hour)
		if moved.Load() != 60 {
			t.Errorf("%d minutes of an hour", moved.Load())
		}
		done := make(chan struct{})
		close(done)
		minutes(time.Now().Add(time.Hour), done, func() { t.Error("a life that is done makes progress") })
	})
}

// TestProcessThatFails checks that the error has the process's output.
func TestProcessThatFails(t *testing.T) {
	p := Process{Command: func(ctx context.Context, _ Plan) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "echo no room; exit 3")
	}}
	if _, _, err := p.Run(t.Context(), Plan{}); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
}
