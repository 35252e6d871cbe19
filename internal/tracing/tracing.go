package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans go.
type Options struct {
	// Endpoint is the collector's OTLP/HTTP address. Without a path spans go to
	// /v1/traces. "" takes OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
	// OTEL_EXPORTER_OTLP_ENDPOINT, or localhost:4318.
	Endpoint string
	// Ratio of the requests without a trace of their caller's that begin one.
	Ratio float64
	// Version of this program, an attribute of all spans.
	Version string
	Logger  *slog.Logger

	// Exporter gets each span as it ends, in place of a collector: for tests.
	Exporter sdk.SpanExporter
}

// Tracer begins spans; a nil one begins none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New connects to nobody yet: the exporter does when it has spans. Headers,
// time-outs and the bound of the queue come from the standard environment
// variables OTEL_EXPORTER_OTLP_* and OTEL_BSP_*.
func New(ctx context.Context, o Options) (*Tracer, error) {
	processor := sdk.NewSimpleSpanProcessor(o.Exporter)
	if o.Exporter == nil {
		otlp, err := exporter(ctx, o.Endpoint)
		if err != nil {
			return nil, err
		}
		processor = sdk.NewBatchSpanProcessor(&reporting{SpanExporter: otlp, log: o.Logger})
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "waterclock"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(processor), sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(followLinks{sdk.TraceIDRatioBased(o.Ratio)})))
	return &Tracer{provider: p, tracer: p.Tracer("github.com/waterclock/waterclock",
		trace.WithInstrumentationVersion(o.Version))}, nil
}

func exporter(ctx context.Context, endpoint string) (sdk.SpanExporter, error) {
	var opts []otlptracehttp.Option
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, errors.New("tracing.endpoint is not an http or https URL: write for example " +
				"http://127.0.0.1:4318")
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path = "/v1/traces"
		}
		opts = append(opts, otlptracehttp.WithEndpointURL(u.String()))
	}
	otlp, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return otlp, nil
}

// Close sends what waits in the queue, as long as ctx lasts.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// followLinks samples the ratio of new traces, and besides them each that is
// linked to a sampled one: a turn has no parent, and is recorded for what it
// decided.
type followLinks struct{ sdk.Sampler }

func (f followLinks) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	for _, l := range p.Links {
		if l.SpanContext.IsSampled() {
			return sdk.SamplingResult{Decision: sdk.RecordAndSample}
		}
	}
	return f.Sampler.ShouldSample(p)
}
