//go:build unix

package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/schemas/statepb"
)

// made returns a history without faults: n one-shots in one partition, of which every kth has
// fired. It has what an engine writes for each: the event and the state of the register, then the
// due event, its event and its state.
func made(n, k int) *History {
	prefix := "waterclock."
	file := func(topic string) *File { return NewFile(FileMeta{Topic: prefix + topic}) }
	commands, events, state, due := file("commands"), file("events"), file("state"), file("due.default")
	begin := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC).UnixMilli()
	us := begin * 1000
	event := func(key, body string, at int64) {
		us++
		events.Append(&Record{
			Offset: events.End, Timestamp: at, ProducerID: -1, Key: []byte(key),
			Value: fmt.Appendf(nil,
				`{"event_id":"0-%d","trigger":%q,"version":1,"tenant":"default","occurred_at":%q,"event_us":%d,"channel":"default",%s}`, us, key, spell(at), us, body),
		})
		events.End++
	}
	keepKey := func(key string, s *statepb.State, at int64) {
		b, _ := proto.Marshal(s)
		state.Append(&Record{Offset: state.End, Timestamp: at, ProducerID: -1, Key: []byte(key), Value: b})
		state.End++
	}
	for i := range n {
		key, at := fmt.Sprintf("hold-%08d", i), begin+int64(i)
		nominal := at + 7*60_000
		payload := fmt.Appendf(nil, `{"holdId":"h_%08d","seats":["12A","12B"]}`, i)
		commands.Append(&Record{
			Offset: int64(i), Timestamp: at, ProducerID: -1, Key: []byte(key),
			Value: fmt.Appendf(nil, `{"op":"register","delay":"7m","payload":%s}`, payload),
		})
		commands.End++
		event(key,
			fmt.Sprintf(`"type":"trigger.registered","revision":1,"seq":1,"scheduled_at":%q,"occurrence":%q,"state":"PENDING","source":"waterclock.commands/0/%d"`,
				spell(nominal), spell(nominal), i), at)
		s := &statepb.State{
			Format: 1, Status: statepb.Status_STATUS_PENDING, Revision: 1, Seq: 1,
			Spec: &statepb.Spec{Channel: "default", Payload: payload}, Series: &statepb.Series{At: nominal},
		}
		keepKey(key, s, at)
		if k == 0 || i%k != 0 {
			continue
		}
		due.Append(&Record{
			Offset: due.End, Timestamp: nominal, ProducerID: -1, Key: []byte(key), Value: payload,
			Headers: []Header{
				{"ce_specversion", []byte("1.0")},
				{"ce_id", []byte(key + "@" + spell(nominal) + "#0")},
				{
					"ce_source",
					[]byte("/waterclock/default"),
				},
				{"ce_type", []byte("waterclock.due.v1")},
				{"ce_subject", []byte(key)},
				{
					"ce_time",
					[]byte(spell(nominal)),
				},
				{"ce_wcfired", []byte(spell(nominal))},
				{"ce_wcrevision", []byte("1")},
				{"ce_wcattempt", []byte("1")},
				{"ce_wcstep", []byte("0")},
				{
					"ce_wcbasis",
					fmt.Appendf(nil, "1.%d.%d.0.0", i+1, i+1),
				},
				{"content-type", []byte("application/json")},
			},
		})
		due.End++
		event(key,
			fmt.Sprintf(`"type":"occurrence.fired","revision":1,"seq":2,"scheduled_at":%q,"occurrence":%q,"step":0,"attempt":1,"state":"FIRED","previous_state":"PENDING","lateness_ms":0,"due_topic":"waterclock.due.default","due_partition":0`,
				spell(nominal), spell(nominal)), nominal)
		keepKey(key, &statepb.State{Format: 1, Status: statepb.Status_STATUS_FIRED, Revision: 1, Seq: 2, Trimmed: true},
			nominal)
	}
	progress(state, int64(n), us, events, state, due)
	return NewHistory(prefix, 1, []*File{commands, events, state, due, file("rejected")})
}

// progress appends the progress record of one turn that wrote all of it.
func progress(state *File, commands, us int64, wrote ...*File) {
	p := &statepb.Progress{Format: 1, NextCommand: commands, EventUs: us, Seq: 1, Term: 1}
	for _, f := range wrote {
		m := &statepb.TopicCount{Topic: f.Topic}
		_ = f.Records(func(r *Record) {
			var b [24]byte
			binary.BigEndian.PutUint64(b[0:], m.Digest)
			binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(r.Key))
			binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(r.Value))
			m.Records, m.Digest = m.Records+1, xxhash.Sum64(b[:])
		})
		p.Manifest = append(p.Manifest, m)
	}
	b, _ := proto.Marshal(p)
	state.Append(&Record{Offset: state.End, ProducerID: -1, Key: bytes.Clone(keyProgress), Value: b})
	state.End++
}

// cpu returns the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkVerify reports records per second on one core, by wall time and by CPU time. Other
// load on the machine does not lengthen the latter.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{100_000} {
		h := made(n, 1)
		b.Run(fmt.Sprintf("fired=%d", n), func(b *testing.B) {
			records, begin := int64(0), cpu(b)
			for b.Loop() {
				r, err := Verify(h, Options{Unread: -1})
				if err != nil || !r.OK() {
					b.Fatalf("%v, %d violations, the first: %v", err, r.Total(), first(r))
				}
				records += r.Records
			}
			b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(records)/(cpu(b)-begin).Seconds(), "records/cpu-s")
		})
	}
}

func first(r *Report) string {
	if len(r.Violations) == 0 {
		return "none"
	}
	return r.Violations[0].String()
}

// BenchmarkMemory reports the checker's peak memory per live trigger, without the dump itself.
func BenchmarkMemory(b *testing.B) {
	const n = 200_000
	h := made(n, 0)
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		most := uint64(0)
		calls := 0
		o := Options{Unread: -1, Progress: func(int64,
			int64,
		) { // skip the calls before the index is full: one at the end of each file
			if calls++; calls < 6 {
				return
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc-min(after.HeapAlloc, before.HeapAlloc))
		}}
		r, err := Verify(h, o)
		if err != nil || !r.OK() {
			b.Fatalf("%v, the first: %v", err, first(r))
		}
		b.ReportMetric(float64(max(most, uint64(r.IndexBytes)))/n, "B/live-trigger")
		b.ReportMetric(float64(r.IndexBytes)/n, "index-B/live-trigger")
	}
}
