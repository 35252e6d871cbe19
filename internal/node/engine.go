package node

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/pipeline"
)

// Engine is the engine role alone, as measurements want it. Nobody else uses
// its data directory.
type Engine struct{ n *node }

// RunEngine calls f beside an engine whose partitions all fire, and ends the
// engine when f returns. inner is how the engine reaches a broker of this
// process.
func RunEngine(ctx context.Context, o Options, f func(*Engine) error, inner ...kgo.Opt) error {
	n, err := newNode(o, inner...)
	if err != nil {
		return err
	}
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openEngine(); err != nil {
		return err
	}
	life := newRoles(n.log)
	defer life.end()
	life.start("engine", n.engine.Run)
	if err := n.awaitReady(ctx, life, nil); err != nil {
		return err
	}
	return f(&Engine{n})
}

// Partitions is what the engine owns.
func (e *Engine) Partitions() []pipeline.Status { return e.n.engine.Partitions() }

// Turns says how many turns there were, and how many milliseconds a commit took
// on average.
func (e *Engine) Turns() (turns int64, commitMS float64) { return e.n.metrics.Turns() }

// Kafka is how a client that is not the engine's reaches the broker.
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
	return nil
}

// awaitReady waits until every partition fires, ctx ends or a role fails. Where
// a store has to be rebuilt it reports how many records of topic state have
// been read, of how many.
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
