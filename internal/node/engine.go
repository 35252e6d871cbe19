package node

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/internal/heap"
	"github.com/waterclock/waterclock/pipeline"
)

// Engine is the engine role alone, for measurements. No other process uses its data
// directory.
type Engine struct{ n *node }

// RunEngine calls f while an engine runs whose partitions all fire. It stops the engine when
// f returns. If the engine fails meanwhile, the context of f ends, and RunEngine returns why
// the engine failed. inner connects the engine to a broker in this process.
func RunEngine(
	ctx context.Context, o Options, f func(context.Context, *Engine) error, inner ...kgo.Opt,
) (err error) {
	n, err := newNode(o, inner...)
	if err != nil {
		return err
	}
	heap.Manage(heap.LeastGrowth)
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openEngine(); err != nil {
		return err
	}
	life := newRoles(n.cfg.Stop.Timeout, n.log)
	defer func() { err = n.finish(life, err) }()
	life.start("memory", n.watchMemory)
	life.start("engine", n.engine.Run)
	if err := n.awaitReady(ctx, life, nil); err != nil {
		return err
	}
	return life.during(ctx, func(ctx context.Context) error { return f(ctx, &Engine{n}) })
}

// Partitions lists what the engine owns.
func (e *Engine) Partitions() []pipeline.Status { return e.n.engine.Partitions() }

// Turns returns how many turns there were, and the mean duration of a commit in
// milliseconds.
func (e *Engine) Turns() (turns int64, commitMS float64) { return e.n.metrics.Turns() }

// Kafka returns the options with which other clients reach the broker.
func (e *Engine) Kafka() []kgo.Opt { return e.n.kafka }

// openEngine makes the engine; its Run is a role.
func (n *node) openEngine() error {
	o := n.engineOptions()
	if err := armFailpoints(&o); err != nil {
		return err
	}
	e, err := engine.New(o)
	if err != nil {
		return err
	}
	n.engine = e
	n.metrics.Watch(e.Partitions, e.Standbys)
	n.metrics.WatchDisk(e.Disk)
	return nil
}

// awaitReady waits until every partition fires, ctx ends or a role fails. If a store is
// rebuilt it reports how many records of topic state have been read, and of how many.
func (n *node) awaitReady(ctx context.Context, life *roles, report func(done, total int64)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n.readiness() != nil {
		if report != nil {
			report(n.restored())
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-life.errs:
			return err
		case <-tick.C:
		}
	}
	return nil
}

func (n *node) restored() (done, total int64) {
	for _, s := range n.engine.Partitions() {
		done, total = done+s.Restored, total+s.RestoreTotal
	}
	return done, total
}
