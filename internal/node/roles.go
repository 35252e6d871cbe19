package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// roles run until one of them fails or end is called. The last one started is stopped
// first.
type roles struct {
	within  time.Duration // time limit for ending all of them together; 0: no limit
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

func newRoles(within time.Duration, log *slog.Logger) *roles {
	return &roles{within: within, log: log, errs: make(chan error, 16)}
}

// start runs a role with a context of its own, because we choose the order in which roles
// stop.
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
		l.why = context.Cause(ctx).Error() // the cause names the signal
		l.log.Info("stopping", "reason", l.why)
		return nil
	case err := <-l.errs:
		return l.failed(err)
	}
}

// during calls f. If a role fails, it ends the context of f, waits for f and returns the role's error.
func (l *roles) during(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f(ctx)
	}()
	select {
	case <-done:
		return err
	case why := <-l.errs:
		cancel()
		<-done // what f returns now follows from the failure
		return l.failed(why)
	}
}

func (l *roles) failed(err error) error {
	l.why = err.Error()
	l.log.Error("stopping", "reason", l.why)
	return err
}

// share is the fraction of the time limit after which the next role is stopped as well. A request
// that waits for a broker must not use up the engine's time. The engine may use all the time that
// is left.
const share = 8

// end stops the roles in reverse order, and returns those that did not end in time. The caller
// must not close what those use. All roles share one deadline, because a supervisor has one. end
// logs how long each role took.
func (l *roles) end() (left []string) {
	var late <-chan time.Time
	if l.within > 0 {
		timer := time.NewTimer(l.within)
		defer timer.Stop()
		late = timer.C
	}
	over, begun := false, time.Now()
	var steps []string
	for _, r := range slices.Backward(l.running) {
		at := time.Now()
		r.stop()
		if over {
			continue
		}
		var enough <-chan time.Time // from then on, the next role ends in parallel
		if l.within > 0 && r.name != "engine" {
			enough = time.After(l.within / share)
		}
		select {
		case <-r.done:
		case <-enough:
		case <-late:
			over = true
		}
		steps = append(steps, fmt.Sprintf("%s %v", r.name, time.Since(at).Round(time.Millisecond)))
	}
	for _, r := range l.running { // roles that ran out of time and did not end
		if !over {
			select {
			case <-r.done:
			case <-late:
				over = true
			}
		}
	}
	for _, r := range slices.Backward(l.running) {
		select {
		case <-r.done:
		default:
			if over {
				left = append(left, r.name)
			}
		}
	}
	if l.why != "" && len(left) == 0 {
		l.log.Info("stopped", "reason", l.why, "took", time.Since(begun).Round(time.Millisecond), "steps",
			strings.Join(steps, ", "))
	}
	return left
}

// LeftError says that a process stopped before all of its roles had ended. What Kafka has
// acknowledged is safe, as after a crash.
type LeftError struct {
	Within time.Duration
	Left   []string // roles, and what they were doing
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("stop.timeout (%v) expired before these had ended: %s. Nothing is lost; other instances take "+
		"over after the session time-out", e.Within, strings.Join(e.Left, "; "))
}

// finish stops the roles. If some have not ended, it returns a LeftError, and what they use stays
// open. Otherwise it returns err.
func (n *node) finish(life *roles, err error) error {
	if life.within > 0 {
		n.stopBy = time.Now().Add(life.within)
	}
	names := life.end()
	if len(names) == 0 {
		return err
	}
	n.abandoned = true
	left := &LeftError{Within: life.within}
	for _, name := range names {
		if name == "engine" && n.engine != nil {
			name += n.engine.Ending()
		}
		left.Left = append(left.Left, name)
	}
	n.log.Error("stopping took too long; ending the process now", "timeout", life.within, "left", left.Left)
	if err != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	return left
}

// closing wraps f, which closes what the roles use. The result does nothing if a role has not ended. It waits for f
// until the deadline of the whole stop; then the rest stays open as well.
func (n *node) closing(name string, f func()) func() {
	return func() {
		if n.abandoned || n.inTime(f) {
			return
		}
		n.abandoned, n.unclosed = true, name
		n.log.Error("stopping took too long; ending the process now", "timeout", n.cfg.Stop.Timeout, "left", name)
	}
}

// closeGrace is how long something has to close when the deadline is over: most of it needs no time.
const closeGrace = 50 * time.Millisecond

// inTime reports whether f returns before the deadline. Before there is one it waits for f.
func (n *node) inTime(f func()) bool {
	if n.stopBy.IsZero() {
		f()
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(max(time.Until(n.stopBy), closeGrace))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	}
	select { // both may have been ready
	case <-done:
		return true
	default:
		return false
	}
}

// ended is the result of a process whose deferred calls are done.
func (n *node) ended(err error) error {
	if n.unclosed == "" {
		return err
	}
	left := &LeftError{Within: n.cfg.Stop.Timeout, Left: []string{n.unclosed + " (closing)"}}
	if err != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	return left
}

// closers close what a process has opened.
type closers []func()

// close closes the last one opened first.
func (c *closers) close() {
	for _, f := range slices.Backward(*c) {
		f()
	}
}

// openDoors opens what answers callers and what delivers: the gateway and the workers. What is
// open already when it fails is in opened, too.
func (n *node) openDoors(opened *closers, dev bool) error {
	if err := n.openGateway(); err != nil {
		return err
	}
	*opened = append(*opened, n.closing("gateway", n.gateway.Close))
	if n.cfg.HasRole("webhook") {
		if err := n.openWebhook(dev); err != nil {
			return err
		}
		*opened = append(*opened, n.closing("webhook", n.closeWebhook))
	}
	if err := n.openNotify(); err != nil {
		return err
	}
	*opened = append(*opened, n.closing("providers", n.closeNotify))
	return nil
}

// startRoles starts what dev and serve have in common. history says whether this process writes
// the history.
func (n *node) startRoles(life *roles, history bool) error {
	life.start("memory", n.watchMemory)
	if err := n.startAdmin(life); err != nil {
		return err
	}
	if history {
		life.start("history", n.runHistory)
		life.start("letters", n.runLetters)
		life.start("contents", n.runContents)
	}
	if n.engine != nil {
		life.start("engine", n.engine.Run)
		life.start("forecasts", n.engine.KeepForecasts)
		n.startReconcile(life)
	}
	if n.webhooks != nil {
		life.start("webhook", n.runWebhook)
	}
	n.startNotify(life)
	if err := n.startExport(life); err != nil {
		return err
	}
	n.startInternal(life)
	n.startMoves(life)
	n.startClaims(life)
	return nil
}
