package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrStoodStill means that a life did not end, and that the engine is not the cause. kgo waits
// for a broker's answer while it holds a mutex. In a bubble, no time passes while a goroutine
// waits for a mutex. So the answer, a simulated millisecond away, never comes. See
// docs/simulator.md.
var ErrStoodStill = errors.New("the life stood still: kgo holds a mutex over a request, for which no bubble's time " +
	"passes")

// Process runs each plan in its own process, so a life that does not end blocks only itself.
type Process struct {
	// Command returns a process that calls Serve with the plan.
	Command func(context.Context, Plan) *exec.Cmd
	// Tries is how often to run a life that stands still. 0 means 3.
	Tries int
	// Stuck is how long a process must be idle to count as standing still. 0 means 10 s.
	Stuck time.Duration
	// Stall is how long simulated time may stand still in a process that works. The life has then
	// failed. 0 means 10 min.
	Stall time.Duration
	// Dump is how long a process that is ended may print its goroutines. 0 means 1 min.
	Dump time.Duration
}

// Serve runs a plan and writes its outcome to the parent process.
func Serve(p Plan) error {
	to := os.NewFile(outcomeFile, "outcome")
	if to == nil {
		return errors.New("nobody asked for this life")
	}
	var minutes atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		reportProgress(to, &minutes, stop)
	}()
	o := Bubble(p, func() { minutes.Add(1) })
	close(stop)
	<-stopped
	return errors.Join(json.NewEncoder(to).Encode(o), to.Close())
}

// reportProgress writes an empty line each second in which simulated time has moved.
func reportProgress(to io.Writer, minutes *atomic.Int64, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if n := minutes.Load(); n != last {
			last = n
			_, _ = io.WriteString(to, "\n") // JSON may begin with any number of them
		}
	}
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
	var reads atomic.Int64
	go func() {
		b, _ := io.ReadAll(countingReader{from, &reads})
		written <- b
	}()
	ended := make(chan struct{})
	watched := make(chan verdict, 1)
	go func() { watched <- p.watch(cmd.Process, &reads, ended) }()
	err = cmd.Wait()
	close(ended)
	saw := <-watched
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case saw == stuck:
		return nil, whyStuck(plan, said.String())
	case saw == stalled:
		return nil, fmt.Errorf("waterclock sim %v did not end: it works, but its simulated time stands still, or is "+
			"more than a day past its end:\n%s", plan, said.String())
	}
	o := &Outcome{}
	if err := errors.Join(err, json.Unmarshal(<-written, o)); err != nil {
		return nil, fmt.Errorf("waterclock sim %v: %w\n%s", plan, err, said.String())
	}
	return o, nil
}

// countingReader counts how often something was read.
type countingReader struct {
	io.Reader
	reads *atomic.Int64
}

func (r countingReader) Read(b []byte) (n int, err error) {
	n, err = r.Reader.Read(b)
	r.reads.Add(1)
	return n, err
}

// verdict is what was seen of a process.
type verdict int

const (
	ends    verdict = iota // it ended by itself
	stuck                  // it does nothing
	stalled                // it works, and simulated time stands still
)

// watch makes a process that would not end print its goroutines and end. reads counts the child's
// reports of progress.
func (p Process) watch(child *os.Process, reads *atomic.Int64, ended <-chan struct{}) (saw verdict) {
	idle := since[uint64]{limit: cmp.Or(p.Stuck, 10*time.Second), at: time.Now()}
	still := since[int64]{limit: cmp.Or(p.Stall, 10*time.Minute), at: time.Now()}
	tick := time.NewTicker(min(idle.limit, still.limit) / 20)
	defer tick.Stop()
	for saw == ends {
		select {
		case <-ended:
			return ends
		case <-tick.C:
		}
		switch isIdle, isStill := idle.over(cpuTime(child.Pid)), still.over(reads.Load()); {
		case isIdle && waits(child.Pid):
			saw = stuck
		case isStill:
			saw = stalled
		}
	}
	_ = child.Signal(syscall.SIGQUIT)
	select {
	case <-ended:
	case <-time.After(cmp.Or(p.Dump, time.Minute)):
		_ = child.Kill() // it cannot print its goroutines
	}
	return saw
}

// since tells how long a number has been the same.
type since[T comparable] struct {
	limit time.Duration
	at    time.Time
	last  T
}

// over reports whether the number has been the same for the limit. It then begins anew.
func (s *since[T]) over(n T) bool {
	now := time.Now()
	same := n == s.last
	if same && now.Sub(s.at) < s.limit {
		return false
	}
	s.at, s.last = now, n
	return same
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
