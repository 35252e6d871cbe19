package node

import (
	"cmp"
	"context"
	"time"

	"github.com/waterclock/waterclock/internal/tracing"
)

// openTracing creates the tracer if the settings ask for one.
func (n *node) openTracing() (err error) {
	t := n.cfg.Tracing
	if t.Exporter != "otlp" {
		return nil
	}
	n.tracing, err = tracing.New(context.Background(),
		tracing.Options{Endpoint: t.Endpoint, Ratio: t.Ratio, Version: n.opts.Version, Logger: n.log})
	return err
}

// lastSpansWithin bounds how long an ending process waits for the collector, if Options say nothing.
const lastSpansWithin = 5 * time.Second

// spansWithin is how long the end may wait for the collector. Of the time that is left until the deadline of the stop
// it leaves half: what is closed later needs some, too.
func (n *node) spansWithin() time.Duration {
	within := cmp.Or(n.opts.LastSpansWithin, lastSpansWithin)
	if !n.stopBy.IsZero() {
		within = min(within, time.Until(n.stopBy)/2)
	}
	return within
}

func (n *node) closeTracing() {
	ctx, cancel := context.WithTimeout(context.Background(), n.spansWithin())
	defer cancel()
	if err := n.tracing.Close(ctx); err != nil {
		n.log.Warn("the last spans were not sent", "error", err)
	}
}
