package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// reporting logs that the collector does not take spans, instead of telling
// OpenTelemetry's global handler, which writes where it likes.
type reporting struct {
	sdk.SpanExporter
	log *slog.Logger

	mu       sync.Mutex
	reported time.Time
	lost     int
}

// reportEvery bounds how often it is told: a collector can be away for days.
const reportEvery = time.Minute

func (e *reporting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil || e.log == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += len(spans)
	if now := time.Now(); now.Sub(e.reported) >= reportEvery {
		e.log.Warn("the trace collector does not accept spans", "lost", e.lost, "error", err)
		e.reported, e.lost = now, 0
	}
	return nil
}
