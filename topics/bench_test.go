package topics

import (
	"fmt"
	"maps"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// The command every benchmark is about: a hold that expires, with the fields
// a service would set. One trigger life is one of each of these.
var (
	benchHeaders = &Record{
		Topic: "waterclock.commands", Key: []byte("hold-8c4f21aa"), Offset: 81,
		Timestamp: 1_790_000_000_000,
		Value:     []byte(`{"holdId":"h_8c4f21aa","seat":"14C","amount":129.5}`),
		Headers: []trigger.Header{
			header("wc-delay", "7m"), header("wc-channel", "orders"),
			header("wc-user-id", "u_81"),
			header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
		},
	}
	benchJSON = &Record{
		Topic: "waterclock.commands", Key: []byte("hold-8c4f21aa"), Offset: 81,
		Timestamp: 1_790_000_000_000,
		Value:     []byte(`{"op":"register","channel":"orders","user_id":"u_81","delay":"7m","payload":{"holdId":"h_8c4f21aa","seat":"14C","amount":129.5}}`),
		Headers:   []trigger.Header{header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")},
	}
	benchRule = &Record{
		Topic: "waterclock.commands", Key: []byte("pills-81"), Offset: 82, Timestamp: 1_790_000_000_000,
		Value: []byte(`{"op":"register","channel":"push","user_id":"u_81","start":"2026-11-20T09:00","timezone":"America/New_York",` +
			`"recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO,WE","exclude":["2026-12-25"],"tags":{"type":"medication"},"payload":{"title":"Take pills"}}`),
	}
)

func BenchmarkDecodeCommand(b *testing.B) {
	for _, c := range []struct {
		name string
		rec  *Record
	}{{"spelling=headers", benchHeaders}, {"spelling=json", benchJSON}, {"spelling=json/rule", benchRule}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeCommand(c.rec, Limits{}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchCommand(b *testing.B, rec *Record) *trigger.Command {
	b.Helper()
	c, err := DecodeCommand(rec, Limits{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchState(b *testing.B) *trigger.State {
	c := benchCommand(b, benchJSON)
	at := c.From.Append
	return &trigger.State{
		Key: c.Key, Status: trigger.Pending, Revision: 1, Seq: 1, Spec: *c.Spec, Hash: c.Hash,
		Life: trigger.Life{Partition: 3, Offset: 81}, LastAppend: at, CreatedAt: at, UpdatedAt: at,
		Series: trigger.Series{At: at + 420_000, Occurrence: (at + 420_000).String()},
	}
}

func BenchmarkAppendState(b *testing.B) {
	s, buf := benchState(b), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		out, err := AppendState(buf, s)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(out)))
	}
}

func BenchmarkDecodeState(b *testing.B) {
	s := benchState(b)
	buf, err := AppendState(nil, s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if _, err := DecodeState(s.Key, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	s, buf := benchState(b), make([]byte, 0, 2048)
	registered := &trigger.Fact{
		Type: trigger.Registered, Revision: 1, Seq: 1, Channel: "orders", UserID: "u_81",
		Scheduled: s.Series.At, Occurrence: s.Series.Occurrence, State: trigger.Pending, Spec: &s.Spec,
	}
	fired := &trigger.Fact{
		Type: trigger.OccurrenceFired, Revision: 1, Seq: 2, Channel: "orders", UserID: "u_81",
		Scheduled: s.Series.At, Occurrence: s.Series.Occurrence, State: trigger.Fired, Previous: trigger.Pending,
		HasStep: true, Attempt: 1, HasLate: true, Lateness: 3, HasDue: true, DueTopic: "waterclock.due.orders",
		DuePart: 3,
	}
	env := EventEnv{Partition: 3, EventUS: 1_790_000_000_000_123, At: s.CreatedAt, WithPayload: true}
	for _, c := range []struct {
		name string
		fact *trigger.Fact
	}{{"type=registered", registered}, {"type=fired", fired}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.SetBytes(int64(len(AppendEvent(buf, s.Key, c.fact, env))))
			}
		})
	}
}

func BenchmarkDueRecord(b *testing.B) {
	s := benchState(b)
	f := &trigger.Fire{
		Key: s.Key, Spec: &s.Spec, Occurrence: s.Series.Occurrence, Attempt: 1, Revision: 1,
		Nominal: s.Series.At, Fired: s.Series.At + 3, Channel: "orders",
	}
	env := DueEnv{Cluster: "local", Basis: Basis(7, 81_234, 10_000_123, 5_000_456, 3)}
	b.ReportAllocs()
	for b.Loop() {
		DueRecord(f, env)
	}
}

// BenchmarkAppendProgress: what each turn encodes, by the number of partitions that ever forwarded to
// this one.
func BenchmarkAppendProgress(b *testing.B) {
	for _, sources := range []int{0, 16, 1000} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			p := Progress{
				NextCommand: 1 << 40, NextReceipt: 1 << 38, NextControl: 12, EventUS: 1 << 50, Seq: 1 << 33, Term: 70,
				Owner: "10.20.30.40:7070", Applied: map[int32]int64{},
			}
			for s := range sources {
				p.Applied[int32(s)] = 1<<40 + int64(s)*12345
			}
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				p.Applied = maps.Clone(p.Applied) // as a turn does that applies a forwarded command
				var err error
				if buf, err = AppendProgress(buf[:0], &p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
	}
}
