package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
)

// tape records all topics while it happens: compaction destroys evidence. It
// is what waterclock events record --follow does.
type tape struct {
	w      *world
	dir    string
	cancel func()
	done   chan struct{}
	began  int // recordings, of which each but the first goes on with the one before
}

func startTape(w *world) *tape {
	dir := w.dir
	if w.s.keep != "" {
		dir = w.s.keep
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &tape{w: w, dir: filepath.Join(dir, "recording"), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			if err := p.record(ctx, true); err != nil && ctx.Err() == nil {
				w.t.Logf("%7s  the recording is begun again: %v", w.at(time.Now()), err)
				time.Sleep(time.Second)
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); <-p.done })
	return p
}

func (p *tape) record(ctx context.Context, follow bool) error {
	p.began++
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.w.brokers...), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.MetadataMaxAge(5*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	return check.RecordLive(ctx, cl, check.RecordOptions{Dir: p.dir, Prefix: prefix, Follow: follow})
}

// keep moves the recording of a test that has failed to where it outlives the test.
func (p *tape) keep() {
	if p.w.s.keep != "" {
		return
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("waterclock-chaos-%d-", p.w.s.seed))
	if err == nil {
		to := filepath.Join(dir, "recording")
		if err = os.Rename(p.dir, to); err == nil {
			p.dir = to
		}
	}
	if err != nil {
		p.w.t.Logf("the recording is not kept: %v", err)
	}
}

// finish records what has come since, up to the topics' ends.
func (p *tape) finish() {
	p.w.t.Helper()
	p.cancel()
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.record(ctx, false); err != nil {
		p.w.t.Fatalf("the recording cannot be finished: %v", err)
	}
}
