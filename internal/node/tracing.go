package node

import (
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

// lastSpansWithin bounds how long an ending process waits for the collector. Of the time that is left until the
// deadline of the stop it leaves half: what is closed later needs some, too.
const lastSpansWithin = 5 * time.Second

func (n *node) closeTracing() {
	within := lastSpansWithin
	if !n.stopBy.IsZero() {
		within = min(within, time.Until(n.stopBy)/2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := n.tracing.Close(ctx); err != nil {
		n.log.Warn("the last spans were not sent", "error", err)
	}
}
