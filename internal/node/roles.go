package node

import (
	"context"
	"fmt"
	"slices"
)

// roles run until one of them fails or end is called. The last one started
// ends first.
type roles struct {
	errs    chan error
	running []role
}

type role struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

func newRoles() *roles { return &roles{errs: make(chan error, 16)} }

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
		return nil
	case err := <-l.errs:
		return err
	}
}

// end stops the roles, the last started first.
func (l *roles) end() {
	for _, r := range slices.Backward(l.running) {
		r.stop()
		<-r.done
	}
}
