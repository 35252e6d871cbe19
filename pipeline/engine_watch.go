package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
)

// errHangs says that a partition hangs on this machine, where no reopening
// helps: its goroutine cannot be stopped. The process ends, so that another
// takes its partitions over.
var errHangs = errors.New("a partition hangs")

// watchTell is how often a partition that does not move is told of.
const watchTell = 30

// watch looks every second whether partitions move. It counts looks, not time:
// a process that was stopped has looked at nothing.
func (e *Engine) watch(ctx context.Context) {
	type seen struct {
		own   *ownership
		moves int64
		looks int
	}
	last := map[int32]seen{}
	wait.Every(ctx, time.Second, func() {
		now := map[int32]seen{}
		e.mu.Lock()
		for id, own := range e.owned {
			s := seen{own, own.moves.Load(), 0}
			if was := last[id]; was.own == own && was.moves == s.moves {
				s.looks = was.looks + 1
			}
			now[id] = s
		}
		e.mu.Unlock()
		last = now
		for id, s := range now {
			e.judge(id, s.own.doing(), s.looks)
		}
	})
}

// judge says what a partition that has not moved for so many seconds is worth.
func (e *Engine) judge(id int32, step Step, looks int) {
	switch {
	case step.local() && time.Duration(looks)*time.Second >= e.opts.HangAfter:
		e.end(fmt.Errorf("%w: partition %d has been at step %q for %d s, and no retry helps against that; is the disk well?", errHangs, id, step, looks))
	case looks > 0 && looks%watchTell == 0 && step != StepPoll:
		e.opts.Logger.Warn("a partition does not move", "partition", id, "step", step, "seconds", looks)
	}
}
