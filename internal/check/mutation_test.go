package check_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/schemas/statepb"
)

// mutation is one fault that a broken engine, broker or disk could cause in a history.
type mutation struct {
	name   string
	want   check.Class
	change func(tp *tape)
	torn   bool // do not update the manifests
	acks   []check.Ack
}

var mutations = []mutation{
	{name: "a command is lost", want: check.LostAck, change: func(tp *tape) {
		r, i := tp.find("commands", "once", "", 0)
		r.records = slices.Delete(r.records, i, i+1)
	}},
	{
		name: "an acknowledged command is not there", want: check.LostAck, change: func(*tape) {},
		acks: []check.Ack{{Partition: 1, Offset: 999, Key: "x"}},
	},
	{
		name: "another command stands where one was acknowledged", want: check.LostAck, change: func(*tape) {},
		acks: []check.Ack{{Partition: 0, Offset: 0, Key: "nobody's"}},
	},
	{name: "never forwarded", want: check.LostAck, change: func(tp *tape) {
		r, i := tp.find("commands", "plain", "snooze", 0)
		other := tp.reel(r.Topic, 1-r.Partition)
		x := *r.records[i]
		x.Offset, x.Timestamp = other.records[0].Offset, other.records[0].Timestamp
		x.Key = []byte("series")
		for _, k := range []string{"series", "other", "gone", "dst", "moved"} { // a trigger on r's partition
			if rr, _ := tp.find("commands", k, "", 0); rr == r {
				x.Key = []byte(k)
			}
		}
		other.records = append(other.records, &x)
		last := other.records[len(other.records)-2]
		x.Offset, x.Timestamp = last.Offset+1, last.Timestamp
		other.End++
		tp.seen(other.Partition, x.Offset+1)
	}},
	{name: "a due record is dropped", want: check.LostFire, change: func(tp *tape) {
		r, i := tp.find("due.default", "plain", "", 0)
		r.drop(i)
	}},
	{name: "a firing of a series is dropped", want: check.LostFire, change: func(tp *tape) {
		r, i := tp.find("due.default", "cron", "", 3)
		r.drop(i)
	}},
	{name: "emitted 6 ms early", want: check.Early, change: func(tp *tape) {
		tp.one("due.default", "plain", "",
			0).shift("ce_wcfired", -6)
	}},
	{name: "appended 2 s early", want: check.Early, change: func(tp *tape) {
		x := tp.one("due.default", "cron", "", 2)
		x.Timestamp = instant(x.get("ce_time")).Add(-2 * time.Second).UnixMilli()
	}},
	{name: "a due record stands there twice", want: check.Duplicate, change: func(tp *tape) {
		r, i := tp.find("due.default", "plain", "", 0)
		r.insert(i, *r.records[i])
	}},
	{name: "a step of an escalation stands there twice", want: check.Duplicate, change: func(tp *tape) {
		r, i := tp.find("due.r-step", "oncall", "", 0)
		r.insert(i, *r.records[i])
	}},
	{name: "an event of an escalation is missing", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("events", "oncall", "escalation.advanced", 0)
		r.drop(i)
	}},
	{name: "a step of an escalation is early", want: check.Early, change: func(tp *tape) {
		tp.one("commands", "oncall", "escalation", 0).replace(tp.t, `"after":"30s"`, `"after":"50s"`)
	}},
	{name: "a step goes to another channel", want: check.Phantom, change: func(tp *tape) {
		tp.one("commands", "oncall", "escalation", 0).replace(tp.t, `"after":"30s","channel":"r-step"`,
			`"after":"30s","channel":"r-push"`)
	}},
	{name: "a step that nobody registered", want: check.Illegal, change: func(tp *tape) {
		tp.one("commands", "oncall", "escalation", 0).replace(tp.t, `,{"after":"30s","channel":"r-step"}`, "")
	}},
	{name: "a step of an escalation is left out", want: check.LostFire, change: func(tp *tape) {
		tp.one("commands", "oncall", "escalation", 0).replace(tp.t, `"r-step"}]`, `"r-step"},{"after":"5m","channel":"x"}]`)
	}},
	{name: "a step with another payload", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.r-step", "oncall", "#1", 0).Value = []byte(`{"not":"registered"}`)
	}},
	{name: "fired after its cancel", want: check.AfterStop, change: func(tp *tape) {
		r, i := tp.find("due.default", "cron", "", 5)
		if rr, _ := tp.find("commands", "stopped", "", 0); rr.Partition != r.Partition {
			r, i = tp.reel(r.Topic, rr.Partition), len(tp.reel(r.Topic, rr.Partition).records)-2
		}
		x := r.insert(i, *r.records[i])
		x.Key, x.Value = []byte("stopped"), nil
		for k, v := range map[string]string{
			"ce_id": "stopped@2026-03-07T12:10:00.650Z#0", "ce_subject": "stopped",
			"ce_time":        "2026-03-07T12:10:00.650Z",
			"ce_wclocaltime": "",
		} {
			x.set(k, v)
		}
	}},
	{name: "a cancel that was in time did not count", want: check.AfterStop, change: func(tp *tape) {
		x := tp.one("commands", "other", "cancel", 0)
		x.Timestamp = tp.one("due.default", "other", "", 0).Timestamp - 10_000
	}},
	{name: "wrong local time when clocks change", want: check.Recurrence, change: func(tp *tape) {
		tp.one("due.default", "dst", "2026-03-08", 0).set("ce_wclocaltime", "2026-03-08T02:30:00[America/New_York]")
	}},
	{name: "an hour late when clocks change, in all that is told", want: check.Recurrence, change: func(tp *tape) {
		tp.one("due.default", "once", "", 0).set("ce_time", "2026-03-08T06:30:00.000Z")
		tp.one("events", "once", "occurrence.fired", 0).replace(tp.t, `"scheduled_at":"2026-03-08T07:30:00.000Z"`,
			`"scheduled_at":"2026-03-08T06:30:00.000Z"`)
	}},
	{name: "missed one more than there are", want: check.Recurrence, change: func(tp *tape) {
		tp.one("events", "series", `"count":3`, 0).replace(tp.t, `"count":3`, `"count":4`)
	}},
	{name: "a series leaves one out", want: check.Recurrence, change: func(tp *tape) { tp.leaveOut("cron", 4) }},
	{name: "fired what nobody registered", want: check.Phantom, change: func(tp *tape) {
		r, i := tp.find("due.default", "cron", "", 2)
		x := r.insert(i, *r.records[i])
		x.Key = []byte(nobody(r.Partition))
		x.set("ce_subject", string(x.Key))
		x.set("ce_id", string(x.Key)+"@2026-03-07T12:10:00.650Z#0")
	}},
	{name: "decided on nothing", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.default", "plain", "",
			0).set("ce_wcbasis", "0.0.0.0.0")
	}},
	{name: "payloads swapped", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.default", "plain", "", 0).Value = tp.one("due.default", "other", "", 0).Value
	}},
	{name: "another user", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.default", "plain", "",
			0).set("ce_wcuser", "u2")
	}},
	{name: "a header lost", want: check.Phantom, change: func(tp *tape) {
		x := tp.one("due.default", "headers", "", 0)
		x.Headers = slices.DeleteFunc(x.Headers, func(h check.Header) bool { return h.Key == "mine" })
	}},
	{name: "a revision that was replaced", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.default", "moved",
			"", 0).set("ce_wcrevision", "1")
	}},
	{name: "a retry with other content", want: check.Phantom, change: func(tp *tape) {
		tp.one("due.r-push", "flown",
			"ce_wcattempt=2", 0).Value = []byte("x")
	}},
	{name: "an ack of another life", want: check.Illegal, change: func(tp *tape) {
		tp.one("commands", "acked", `"ack"`, 0).replace(tp.t, `Z"}`, `Z~1-0"}`)
	}},
	{name: "an event is dropped", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("events", "once", "trigger.registered", 0)
		r.drop(i)
	}},
	{name: "a firing is not told", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("events", "cron", "occurrence.fired", 2)
		r.drop(i)
	}},
	{name: "seq jumps", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "stopped", "trigger.cancelled", 0).replace(tp.t, `"seq":2`, `"seq":3`)
		tp.state("stopped", func(s *statepb.State) { s.Seq = 3 })
	}},
	{name: "revision jumps", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "stopped", "trigger.cancelled", 0).replace(tp.t, `"revision":2`, `"revision":3`)
		tp.state("stopped", func(s *statepb.State) { s.Revision = 3 })
	}},
	{name: "event_us goes back", want: check.Illegal, change: func(tp *tape) {
		x := tp.one("events", "stopped", "trigger.cancelled", 0)
		x.replace(tp.t, `"event_us":177288`, `"event_us":077288`)
	}},
	{name: "a state that does not follow", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "once", "trigger.registered", 0).replace(tp.t, `"state":"PENDING"`, `"state":"FIRED"`)
	}},
	{name: "a duplicate counted as a change", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "plain", "command.duplicate", 0).replace(tp.t, "command.duplicate", "trigger.replaced")
	}},
	{name: "a cancel answered by a firing", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "stopped", "trigger.cancelled", 0).replace(tp.t, "trigger.cancelled", "cancel.too_late")
	}},
	{name: "next_at is not the plan", want: check.Illegal, change: func(tp *tape) {
		x := tp.one("events", "once", "trigger.registered", 0)
		x.replace(tp.t, `"next_at":"2026-03-08T07:30:00.000Z"`, `"next_at":"2026-03-08T07:30:00.001Z"`)
	}},
	{name: "something is next of what is over", want: check.Illegal, change: func(tp *tape) {
		x := tp.one("events", "stopped", "trigger.cancelled", 0)
		x.replace(tp.t, `"state":"CANCELLED"`, `"state":"CANCELLED","next_at":"2026-11-20T00:00:00.000Z"`)
	}},
	{name: "wrongly refused", want: check.Illegal, change: func(tp *tape) {
		tp.one("events", "bad", "not_found", 0).replace(tp.t, `"reason":"not_found"`, `"reason":"conflict"`)
		tp.one("rejected", "bad", "not_found", 0).set("wc-error-code", "conflict")
	}},
	{name: "a refusal that is only told", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("rejected", "bad", "unknown_field", 0)
		r.drop(i)
	}},
	{name: "a dead letter is lost", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("dead-letter", "failed", "", 0)
		r.drop(i)
	}},
	{name: "a receipt nobody wrote", want: check.Illegal, change: func(tp *tape) {
		r, i := tp.find("receipts", "flown", "delivered", 0)
		r.drop(i)
	}},
	{name: "a receipt told as another outcome", want: check.Illegal, change: func(tp *tape) {
		tp.one("receipts", "flown", "delivered", 0).replace(tp.t, "delivered", "suppressed")
	}},
	{name: "an old state came back", want: check.NotTheFold, change: func(tp *tape) {
		tp.state("cron",
			func(s *statepb.State) { s.Seq--; s.Series.At -= 1200_000 })
	}},
	{name: "state remembers another next occurrence", want: check.NotTheFold, change: func(tp *tape) {
		tp.state("cron",
			func(s *statepb.State) { s.Series.At++ })
	}},
	{name: "state forgot one that lives", want: check.NotTheFold, change: func(tp *tape) {
		tp.last("state",
			"cron").Value = nil
	}},
	{name: "progress goes back", want: check.NotTheFold, change: func(tp *tape) {
		tp.turn(0, 12, func(p *statepb.Progress) { p.NextCommand = 1 })
	}},
	{name: "bytes of an event changed", want: check.Torn, torn: true, change: func(tp *tape) {
		x := tp.one("events", "plain", "trigger.registered", 0)
		x.Value = append(x.Value[:len(x.Value)-1:len(x.Value)-1], `,"more":1}`...)
	}},
	{name: "a state record twice", want: check.Torn, torn: true, change: func(tp *tape) {
		r, i := tp.find("state", "plain", "", 0)
		r.insert(i, *r.records[i])
	}},
	{name: "a turn without its manifest", want: check.Torn, torn: true, change: func(tp *tape) {
		r, i := tp.find("state", progressKey, "", 7)
		r.drop(i)
	}},
	{name: "an owner wrote after its successor", want: check.Order, change: func(tp *tape) {
		tp.turn(0, -2, func(p *statepb.Progress) { p.Term = 9 })
	}},
	{name: "a due event by an owner of before", want: check.Order, change: func(tp *tape) {
		x := tp.one("due.default", "cron", "", 2)
		x.set("ce_wcbasis", "9"+x.get("ce_wcbasis")[1:])
	}},
	{name: "a partition that stands still", want: check.Stuck, change: func(tp *tape) {
		r, i := tp.find("commands", "plain", "snooze", 0)
		x := *r.records[i]
		x.Key, x.Offset, x.Timestamp = []byte("plain"), r.records[len(r.records)-1].Offset+1,
			r.records[len(r.records)-1].Timestamp+1000
		r.records = append(r.records, &x)
		r.End++
	}},
}

// TestMutations checks that each mutation is found, in its class, and that nothing else is
// reported.
func TestMutations(t *testing.T) {
	h, end := story(t)
	if r := verify(t, record(t, h).history(), end); !r.OK() {
		t.Fatalf("the history itself is bad: %v", r.Violations)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			tp := record(t, h)
			m.change(tp)
			if !m.torn {
				tp.seal()
			}
			r, err := check.Verify(tp.history(), check.Options{Zones: zones(), End: end, Unread: -1, Acks: m.acks})
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Collect(maps.Keys(r.Counts)); len(got) != 1 || got[0] != m.want {
				t.Errorf("found %v, want %s alone", r.Counts, m.want)
				for i := range r.Violations {
					t.Log(r.Violations[i].String())
				}
			}
		})
	}
}

func instant(s string) time.Time {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return at
}

// shift moves an instant in a header.
func (x *frame) shift(header string, ms int) {
	x.set(header, instant(x.get(header)).Add(time.Duration(ms)*time.Millisecond).UTC().
		Format("2006-01-02T15:04:05.000Z"))
}

// nobody returns an unused key of a partition.
func nobody(partition int32) string {
	for i := 0; ; i++ {
		if key := "nobody" + strconv.Itoa(i); check.PartitionOf([]byte(key), 2) == partition {
			return key
		}
	}
}

// state changes the newest state of a trigger.
func (tp *tape) state(key string, change func(*statepb.State)) {
	x := tp.last("state", key)
	s := &statepb.State{}
	if err := proto.Unmarshal(x.Value, s); err != nil {
		tp.t.Fatal(err)
	}
	change(s)
	x.Value, _ = proto.Marshal(s)
}

// turn changes the nth progress record of a partition; -1 is the last one.
func (tp *tape) turn(partition int32, nth int, change func(*statepb.Progress)) {
	var all []*frame
	for _, x := range tp.reel(tp.prefix+"state", partition).visible() {
		if string(x.Key) == progressKey {
			all = append(all, x)
		}
	}
	x := all[(nth+len(all))%len(all)]
	p := tp.progress(x)
	change(p)
	x.Value, _ = proto.Marshal(p)
}

// seen makes the last turn of a partition claim that it has read commands up to an offset.
func (tp *tape) seen(partition int32, offset int64) {
	tp.turn(partition, -1, func(p *statepb.Progress) { p.NextCommand = offset })
}

// leaveOut removes a firing from all records of a trigger, like an engine whose rule skips an
// occurrence.
func (tp *tape) leaveOut(key string, nth int) {
	r, i := tp.find("due.default", key, "", nth)
	r.drop(i)
	r, i = tp.find("events", key, "occurrence.fired", nth)
	r.drop(i)
	gone := 0
	for _, x := range r.records[i:] {
		if string(x.Key) == key && x.Kind == check.InTxn {
			gone++
		}
	}
	for j, x := range r.records {
		if j > i && string(x.Key) == key && x.Kind == check.InTxn {
			x.Value = renumber(x.Value)
		}
	}
	tp.state(key, func(s *statepb.State) { s.Seq-- })
}

// renumber lowers an event's seq by one.
func renumber(b []byte) []byte {
	const name = `"seq":`
	s := string(b)
	i := 0
	for i+len(name) < len(s) && s[i:i+len(name)] != name {
		i++
	}
	from := i + len(name)
	to := from
	for s[to] >= '0' && s[to] <= '9' {
		to++
	}
	n, _ := strconv.Atoi(s[from:to])
	return []byte(s[:from] + strconv.Itoa(n-1) + s[to:])
}

// TestCommandsBeginLater removes the first commands of a log, as compaction may do. The checker
// must not judge what they were.
func TestCommandsBeginLater(t *testing.T) {
	h, end := story(t)
	for _, share := range []int{4, 2} {
		tp := record(t, h)
		for _, r := range tp.files {
			if r.Topic == tp.prefix+"commands" {
				r.records = r.records[len(r.records)/share:]
				r.Start = r.records[0].Offset
			}
		}
		o := check.Options{Zones: zones(), End: end, Unread: -1}
		report, err := check.Verify(tp.history(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range report.Violations {
			t.Errorf("without the first 1/%d: %s", share, report.Violations[i].String())
		}
	}
}
