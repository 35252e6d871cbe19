package sim

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
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

// TestProcessThatFails checks that the error has the process's output.
func TestProcessThatFails(t *testing.T) {
	p := Process{Command: func(ctx context.Context, _ Plan) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "echo no room; exit 3")
	}}
	if _, _, err := p.Run(t.Context(), Plan{}); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Error(err)
	}
}
