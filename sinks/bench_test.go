package sinks

import (
	"testing"
)

func BenchmarkDecodeEvent(b *testing.B) {
	in := []byte(`{"event_id":"3-1795251600000000","type":"occurrence.fired","version":1,"trigger":"trg_01JD5X0Z6T7Q","tenant":"default","revision":1,"seq":2,` +
		`"occurred_at":"2026-11-21T09:00:00.000Z","event_us":1795251600000000,"channel":"push","user_id":"u_81","scheduled_at":"2026-11-21T09:00:00.000Z",` +
		`"occurrence":"2026-11-21T09:00:00.000Z","step":0,"attempt":1,"state":"IN_FLIGHT","previous_state":"PENDING","lateness_ms":2,` +
		`"due_topic":"waterclock.due.push","due_partition":3,"tags":{"type":"reminder"}}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent(in, appended); err != nil {
			b.Fatal(err)
		}
	}
}
