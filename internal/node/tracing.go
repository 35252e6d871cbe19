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

// lastSpansWithin bounds how long an ending process waits for the collector.
const lastSpansWithin = 5 * time.Second

func (n *node) closeTracing() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpansWithin)
	defer cancel()
	if err := n.tracing.Close(ctx); err != nil {
		n.log.Warn("the last spans were not sent", "error", err)
	}
}
