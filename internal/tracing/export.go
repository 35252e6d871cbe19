package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// telling logs that the collector does not take spans, instead of telling
// OpenTelemetry's global handler, which writes where it likes.
type telling struct {
	sdk.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	told time.Time
	lost int
}

// tellEvery bounds how often it is told: a collector can be away for days.
const tellEvery = time.Minute

func (e *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil || e.log == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += len(spans)
	if now := time.Now(); now.Sub(e.told) >= tellEvery {
		e.log.Warn("the trace collector takes no spans", "lost", e.lost, "error", err)
		e.told, e.lost = now, 0
	}
	return nil
}
