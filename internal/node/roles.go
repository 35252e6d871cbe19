package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// roles run until one of them fails or end is called. The last one started
// ends first.
type roles struct {
	log     *slog.Logger
	errs    chan error
	running []role
	why     string // why they end; "" until they do
}

type role struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

func newRoles(log *slog.Logger) *roles { return &roles{log: log, errs: make(chan error, 16)} }

// start runs a role with a context of its own, so that the order of ending is
// ours to choose.
func (l *roles) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := role{name, cancel, make(chan struct{})}
	l.running = append(l.running, r)
	go func() {
		defer close(r.done)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			l.errs <- fmt.Errorf("%s: %w", name, err)
		}
	}()
}

// wait returns when ctx ends or a role fails.
func (l *roles) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		l.why = context.Cause(ctx).Error() // names the signal
		l.log.Info("stopping", "reason", l.why)
		return nil
	case err := <-l.errs:
		l.why = err.Error()
		l.log.Error("stopping", "reason", l.why)
		return err
	}
}

// end stops the roles, the last started first, and says how long each took.
func (l *roles) end() {
	begun := time.Now()
	var steps []string
	for _, r := range slices.Backward(l.running) {
		at := time.Now()
		r.stop()
		<-r.done
		steps = append(steps, fmt.Sprintf("%s %v", r.name, time.Since(at).Round(time.Millisecond)))
	}
	if l.why != "" {
		l.log.Info("stopped", "reason", l.why, "took", time.Since(begun).Round(time.Millisecond), "steps",
			strings.Join(steps, ", "))
	}
}
