package pipeline

import (
	"testing"

	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// What tracing costs a command: nothing when it is off, a look at the header
// when its trace is not sampled.
func BenchmarkTraceOfACommand(b *testing.B) {
	on := tracingtest.Exporting(b)
	const at = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, c := range []struct {
		name        string
		tracer      *tracing.Tracer
		traceparent string
	}{
		{"off", nil, at + "1"},
		{"on, no header", on, ""},
		{"on, not sampled", on, at + "0"},
		{"on, sampled", on, at + "1"},
	} {
		b.Run(c.name, func(b *testing.B) {
			on := tracer{Tracer: c.tracer}
			rec := &topics.Record{Topic: "waterclock.commands", Key: []byte("k")}
			cmd := &trigger.Command{Op: trigger.OpRegister, Key: "k", Spec: &trigger.Spec{TraceParent: c.traceparent}}
			var t turn
			b.ReportAllocs()
			for b.Loop() {
				result(on.spanOf(&t, rec, cmd), "ok")
				t.traced.end(&t, "")
			}
		})
	}
}
