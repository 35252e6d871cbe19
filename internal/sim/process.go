package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ErrStoodStill means that a life did not end, and that the engine is not the cause. kgo waits
// for a broker's answer while it holds a mutex. In a bubble, no time passes while a goroutine
// waits for a mutex. So the answer, a simulated millisecond away, never comes. See
// docs/simulator.md.
var ErrStoodStill = errors.New("the life stood still: kgo holds a mutex over a request, for which no bubble's time " +
	"passes")

// Process runs each plan in its own process, so a life that stands still blocks only itself.
type Process struct {
	// Command returns a process that calls Serve with the plan.
	Command func(context.Context, Plan) *exec.Cmd
	// Tries is how often to run a life that stands still. 0 means 3.
	Tries int
	// Stuck is how long a process must be idle to count as standing still. 0 means 10 s.
	Stuck time.Duration
}

// Serve runs a plan and writes its outcome to the parent process.
func Serve(p Plan) error {
	to := os.NewFile(outcomeFile, "outcome")
	if to == nil {
		return errors.New("nobody asked for this life")
	}
	return errors.Join(json.NewEncoder(to).Encode(Bubble(p)), to.Close())
}

const outcomeFile = 3 // the first of exec.Cmd's ExtraFiles

// Run runs a plan. stood is the number of tries that stood still before the one that ended. err
// is ErrStoodStill if all did.
func (p Process) Run(ctx context.Context, plan Plan) (o *Outcome, stood int, err error) {
	tries := p.Tries
	if tries == 0 {
		tries = 3
	}
	for stood < tries {
		o, err = p.try(ctx, plan)
		if !errors.Is(err, ErrStoodStill) {
			return o, stood, err
		}
		stood++
	}
	return nil, stood, err
}

func (p Process) try(ctx context.Context, plan Plan) (*Outcome, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var said bytes.Buffer
	cmd := p.Command(ctx, plan)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{to}, &said, &said
	err = cmd.Start()
	to.Close()
	if err != nil {
		return nil, err
	}
	written := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(from)
		written <- b
	}()
	ended := make(chan struct{})
	watched := make(chan bool, 1)
	go func() { watched <- p.quitIfStuck(cmd.Process, ended) }()
	err = cmd.Wait()
	close(ended)
	stuck := <-watched
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if stuck {
		return nil, whyStuck(plan, said.String())
	}
	o := &Outcome{}
	if err := errors.Join(err, json.Unmarshal(<-written, o)); err != nil {
		return nil, fmt.Errorf("waterclock sim %v: %w\n%s", plan, err, said.String())
	}
	return o, nil
}

// quitIfStuck makes an idle process print its goroutines and end.
func (p Process) quitIfStuck(child *os.Process, ended <-chan struct{}) bool {
	limit := p.Stuck
	if limit == 0 {
		limit = 10 * time.Second
	}
	idle, last := time.Now(), uint64(0)
	tick := time.NewTicker(limit / 20)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-tick.C:
		}
		if used := cpuTime(child.Pid); used != last {
			idle, last = time.Now(), used
		}
		if time.Since(idle) < limit {
			continue
		}
		if idle = time.Now(); waits(child.Pid) {
			_ = child.Signal(syscall.SIGQUIT)
			return true
		}
	}
}

// knownOfKgo lists where kgo waits for an answer while it holds a mutex, and where another
// goroutine then waits for that mutex.
var knownOfKgo = []struct{ holds, waits string }{
	{"kgo.(*Client).doInitProducerID", "franz-go/pkg/kgo."},      // EndTransaction, or the producer's id
	{"kgo.(*consumer).stopSession", "kgo.(*Client).PollRecords"}, // a new assignment while offsets are listed
}

// whyStuck returns ErrStoodStill only for the known cases in kgo. Anything else is a deadlock of
// ours.
func whyStuck(plan Plan, dump string) error {
	for _, known := range knownOfKgo {
		var holds, waits bool
		for _, g := range strings.Split(dump, "\n\n") {
			state, _, _ := strings.Cut(g, "\n")
			locked := strings.Contains(state, "[sync.Mutex.Lock") || strings.Contains(state, "[sync.RWMutex.")
			holds = holds || (!locked && strings.Contains(g, known.holds))
			waits = waits || (locked && strings.Contains(g, known.waits))
		}
		if holds && waits {
			return ErrStoodStill
		}
	}
	return fmt.Errorf("waterclock sim %v stood still, and not for what is known of kgo:\n%s", plan, dump)
}
