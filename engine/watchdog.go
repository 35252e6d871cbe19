package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
)

// errHangs says that a partition hangs on this machine. Opening it anew does not help,
// because its goroutine cannot be stopped. So the process ends, and another one takes its
// partitions over.
var errHangs = errors.New("a partition hangs")

// watchWarn is the number of seconds between two log lines about a partition that does not
// move.
const watchWarn = 30

// watch checks every second whether partitions move. It counts its checks and not the time,
// because a stopped process checks nothing.
func (e *Engine) watch(ctx context.Context) {
	type seen struct {
		own     *ownership
		moves   int64
		seconds int
	}
	last := map[int32]seen{}
	wait.Every(ctx, time.Second, func() {
		now := map[int32]seen{}
		e.mu.Lock()
		for id, own := range e.owned {
			s := seen{own, own.kept.Moves(), 0}
			if was := last[id]; was.own == own && was.moves == s.moves {
				s.seconds = was.seconds + 1
			}
			now[id] = s
		}
		e.mu.Unlock()
		last = now
		for id, s := range now {
			e.judge(id, s.own.kept.Doing(), s.seconds)
		}
	})
}

// judge ends the process if a partition has hung for too long, and logs a partition that
// has not moved for some time.
func (e *Engine) judge(id int32, step pipeline.Step, seconds int) {
	switch {
	case step.Local() && time.Duration(seconds)*time.Second >= e.process.HangAfter:
		e.fail(fmt.Errorf("%w: partition %d has been at step %q for %d s, and a retry does not help; check the "+
			"disk",
			errHangs, id, step, seconds))
	case seconds > 0 && seconds%watchWarn == 0 && step != pipeline.StepPoll:
		e.process.Logger.Warn("a partition does not move", "partition", id, "step", step, "seconds", seconds)
	}
}
