package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// bad is one record no command can be made of, and what the producer is told.
type bad struct {
	name        string
	key, value  []byte
	headers     []kgo.RecordHeader
	code, field string
	detail      string // to be found in wc-error-detail
}

// garbage is everything a producer can get wrong. Keys are made of the names.
func garbage() []bad {
	raw := func(name string, value []byte, code, field, detail string, headers ...string) bad {
		b := bad{name: name, value: value, code: code, field: field, detail: detail}
		for i := 0; i+1 < len(headers); i += 2 {
			b.headers = append(b.headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return b
	}
	text := func(name, value, code, field, detail string, headers ...string) bad {
		return raw(name, []byte(value), code, field, detail, headers...)
	}
	keyed := func(name, key string) bad {
		b := text(name, `{"op":"register","delay":"1s"}`, "invalid_key", "", "")
		b.key = []byte(key)
		return b
	}
	all := []bad{
		keyed("empty key", ""), keyed("key of bad UTF-8", "a\xff\xfeb"),
		keyed("key with a control character", "a\x00b"), keyed("key with a line end", "a\nb"),
		keyed("key of 300 bytes", strings.Repeat("k", 300)), keyed("key of the default tenant", "default/x"),
		keyed("leading slash", "/x"), keyed("trailing slash", "x/"),

		text("empty value", "", "not_a_command", "", ""),
		text("text", "hello", "not_a_command", "", ""),
		text("JSON without op", `{"delay":"1s"}`, "not_a_command", "", ""),
		text("JSON array", `[{"op":"register","delay":"1s"}]`, "not_a_command", "", ""),
		text("truncated", `{"op":"register","delay":"1s","payload":{"a":`, "not_a_command", "", ""),
		text("two values", `{"op":"register","delay":"1s"}{"op":"cancel"}`, "not_a_command", "", ""),
		raw("random bytes", randomBytes(4000), "not_a_command", "", ""),
		raw("null with a time", nil, "ambiguous_tombstone", "", "", "wc-delay", "1s"),
		raw("null with an op", nil, "ambiguous_tombstone", "", "", "wc-op", "register"),
		raw("null with cancel and more", nil, "ambiguous_tombstone", "", "", "wc-op", "cancel", "wc-if-revision", "1"),
		text("deep payload", `{"op":"register","delay":"1s","payload":`+strings.Repeat("[", 100_000)+strings.Repeat("]",
			100_000)+`}`, "", "", ""),
		text("deep object", strings.Repeat(`{"op":`, 50_000)+"1"+strings.Repeat("}", 50_000), "", "", ""),

		text("unknown op", `{"op":"regsiter","delay":"1s"}`, "unknown_op", "op", "register"),
		text("unknown op header", "x", "unknown_op", "op", "cancel", "wc-op", "cancle"),
		text("unknown field", `{"op":"register","dealy":"1s"}`, "unknown_field", "dealy", "delay"),
		text("unknown header", "x", "unknown_field", "dealy", "delay", "wc-dealy", "1s"),
		text("upper-case header", "x", "unknown_field", "", "", "WC-Delay", "1s"),
		text("header twice", "x", "invalid", "delay", "", "wc-delay", "1s", "wc-delay", "1s"),
		text("field twice", `{"op":"register","delay":"1s","delay":"2s"}`, "invalid", "delay", ""),
		text("op twice", `{"op":"register","op":"cancel","delay":"1s"}`, "invalid", "op", ""),

		text("op is a number", `{"op":7,"delay":"1s"}`, "", "op", ""),
		text("delay is an object", `{"op":"register","delay":{}}`, "invalid", "delay", ""),
		text("tags is a text", `{"op":"register","delay":"1s","tags":"a"}`, "invalid", "tags", ""),
		text("if_absent is a text", `{"op":"register","delay":"1s","if_absent":"yes"}`, "invalid", "if_absent", ""),
		text("if_revision is a fraction", `{"op":"register","delay":"1s","if_revision":1.5}`, "invalid", "if_revision",
			""),
		text("headers is a list", `{"op":"register","delay":"1s","headers":["a"]}`, "invalid", "headers", ""),
		text("priority of our own", `{"op":"register","delay":"1s","priority":"urgent"}`, "invalid", "priority", ""),
		text("bad channel", `{"op":"register","delay":"1s","channel":"No Way"}`, "invalid", "channel", ""),
		text("bad base64", `{"op":"register","delay":"1s","payload_base64":"***"}`, "invalid", "payload_base64", ""),
		text("bad UTF-8 inside", "{\"op\":\"register\",\"delay\":\"1s\",\"user_id\":\"a\xffb\"}", "", "", ""),

		text("no time", `{"op":"register"}`, "conflicting_time", "", ""),
		text("two times", `{"op":"register","delay":"1s","fire_at":"2030-01-01T00:00:00Z"}`, "conflicting_time", "",
			""),
		text("two time headers", "x", "conflicting_time", "", "", "wc-delay", "1s", "wc-fire-at",
			"2030-01-01T00:00:00Z"),
		text("negative delay", `{"op":"register","delay":"-5s"}`, "invalid", "delay", ""),
		text("negative seconds", `{"op":"register","delay":-5}`, "invalid", "delay", ""),
		text("negative delay header", "x", "invalid", "delay", "", "wc-delay", "-5s"),
		text("years", `{"op":"register","delay":"P1Y"}`, "invalid", "delay", ""),
		text("over ten years", `{"op":"register","delay":"4000d"}`, "beyond_horizon", "delay", ""),
		text("overflowing delay", `{"op":"register","delay":"99999999999999999999d"}`, "", "delay", ""),
		text("microseconds", `{"op":"register","fire_at":1900000000000000}`, "invalid", "fire_at", "micro"),
		text("nanoseconds", `{"op":"register","fire_at":"1900000000000000000"}`, "invalid", "fire_at", "nano"),
		text("nanosecond header", "x", "invalid", "fire_at", "nano", "wc-fire-at", "1900000000000000000"),
		text("12 digits", "x", "invalid", "fire_at", "", "wc-fire-at", "190000000000"),
		text("local without a zone", `{"op":"register","fire_at":"2030-01-01T00:00"}`, "invalid", "", ""),
		text("no such zone", `{"op":"register","fire_at":"2030-01-01T00:00","timezone":"Europe/Berln"}`, "unknown_zone",
			"timezone", "Europe/Berlin"),
		text("an offset as zone", `{"op":"register","fire_at":"2030-01-01T00:00","timezone":"+02:00"}`, "unknown_zone",
			"timezone", ""),
		text("30 February", `{"op":"register","fire_at":"2030-02-30T00:00:00Z"}`, "invalid", "fire_at", ""),
		text("year 9999", `{"op":"register","fire_at":"9999-12-31T23:59:59Z"}`, "beyond_horizon", "fire_at", ""),
		text("year 10000", `{"op":"register","fire_at":"10000-01-01T00:00:00Z"}`, "invalid", "fire_at", ""),
		text("long past", `{"op":"register","fire_at":"2020-01-01T00:00:00Z"}`, "in_the_past", "fire_at", ""),
		text("no rule", `{"op":"register","recurrence":"FREQ=SOMETIMES"}`, "invalid_rule", "recurrence", ""),
		text("disputed rule", `{"op":"register","recurrence":"FREQ=YEARLY;BYMONTHDAY=1"}`, "disputed_rule",
			"recurrence", ""),
		text("too short a period", `{"op":"register","recurrence":"every:1s"}`, "period_too_short", "recurrence", ""),
		text("never", `{"op":"register","recurrence":"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}`, "no_occurrences",
			"recurrence", ""),
		text("URL with a user",
			`{"op":"register","delay":"1s","channel":"webhook","callback":{"url":"https://u:p@example.com/"}}`,
			"forbidden_url", "callback", ""),
		text("URL in a private network",
			`{"op":"register","delay":"1s","channel":"webhook","callback":{"url":"https://10.0.0.1/"}}`,
			"forbidden_url", "callback", "public"),
		text("URL of a cloud's metadata", "x", "forbidden_url", "callback", "", "wc-delay", "1s", "wc-callback-url",
			"http://169.254.169.254/latest/meta-data/"),
		text("URL with an address in decimal", "x", "forbidden_url", "callback", "", "wc-delay", "1s",
			"wc-callback-url", "https://2130706433/"),
		text("snooze without for", `{"op":"snooze"}`, "conflicting_time", "for", "for and until"),
		text("snooze of nothing", `{"op":"snooze","for":"1m"}`, "not_found", "", ""),
		text("reschedule of nothing", `{"op":"reschedule","delay":"1m"}`, "not_found", "", ""),
		text("pause of nothing", "x", "not_found", "", "", "wc-op", "pause"),
		text("escalation",
			`{"op":"register","delay":"1s","escalation":[{"channel":"push"},{"channel":"sms"}]}`,
			"invalid", "escalation", "after"),

		text("large payload", strings.Repeat("x", 5000), "too_large", "payload", "", "wc-delay", "1s"),
		text("large JSON payload", `{"op":"register","delay":"1s","payload":"`+strings.Repeat("x", 5000)+`"}`,
			"too_large", "payload", ""),
		text("large value", strings.Repeat("x", 900_000), "too_large", "payload", "", "wc-delay", "1s"),
		text("huge header", "x", "too_large", "headers", "", "wc-delay", "1s", "note", strings.Repeat("h", 900_000)),
		text("17 KiB header", "x", "too_large", "headers", "", "wc-delay", "1s", "note", strings.Repeat("h", 17<<10)),
	}
	many := text("10,000 headers", "x", "too_large", "headers", "", "wc-delay", "1s")
	for i := range 10_000 {
		many.headers = append(many.headers, kgo.RecordHeader{Key: fmt.Sprintf("h-%d", i), Value: []byte("v")})
	}
	return append(all, many)
}

func randomBytes(n int) []byte {
	rng := rand.NewChaCha8([32]byte{7})
	b := make([]byte, n)
	_, _ = rng.Read(b)
	b[0] = 0xff // no JSON begins so
	return b
}

// badReceipts cannot be read; lateReceipt can, and is about nobody.
var badReceipts = []struct{ key, value string }{
	{"r1", ""},
	{"r2", "hello"},
	{"r3", `{"due_id":`},
	{"r4", `{"due_id":"r4@x#0","outcome":"perhaps"}`},
	{"r5", `{"outcome":"delivered"}`},
	{"r6", `{"due_id":"other@2026-01-01T00:00:00.000Z#0","outcome":"delivered"}`},
	{"acme/r7", `{"due_id":"beta/r7@2026-01-01T00:00:00.000Z#0","outcome":"failed"}`}, // another tenant's trigger
	{"r8", `{"due_id":"r8@2026-01-01T00:00:00.000Z#0","outcome":"retry","retry_after":"-3s"}`},
	{"a\xffb", `{"due_id":"x@y#0","outcome":"failed"}`},
	{"r9", strings.Repeat("[", 200_000)},
	{"", `{}`},
	{strings.Repeat("k", 300), `{}`},
}

const lateReceipt = `{"due_id":"late@2026-01-01T00:00:00.000Z#0","outcome":"delivered"}`

// TestBadInput: whatever stands on commands and receipts, the producer is told
// what is wrong, the partition moves on, and its neighbours fire on time.
func TestBadInput(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, w *world) {
		cl := w.producer(t, kgo.ProducerBatchMaxBytes(1<<20))
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		refusesNullKeys(t, w, cl)
		all := garbage()
		var recs []*kgo.Record
		var good []string
		for i := range all {
			b := &all[i]
			if b.key == nil {
				b.key = []byte("bad: " + b.name)
			}
			r := &kgo.Record{
				Topic: w.topic("commands"), Key: b.key, Value: b.value, Headers: b.headers,
				Partition: topics.Partition(b.key, w.partitions),
			}
			if i%7 == 3 { // as librdkafka would: forwarded, and then refused
				r.Partition = (r.Partition + 1) % w.partitions
			}
			good = append(good, fmt.Sprintf("good-%d", i))
			recs = append(recs, r, w.command(good[i], `{"n":1}`, "wc-delay", "2s"))
		}
		for i, b := range badReceipts {
			recs = append(recs, &kgo.Record{
				Topic: w.topic("receipts"), Key: []byte(b.key), Value: []byte(b.value),
				Partition: int32(i) % w.partitions,
			})
		}
		recs = append(recs, &kgo.Record{Topic: w.topic("receipts"), Key: []byte("null"), Partition: 1},
			&kgo.Record{Topic: w.topic("receipts"), Key: []byte("late"), Value: []byte(lateReceipt), Partition: 2})
		if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		due := w.follow(t, "due.default").until(time.Minute, "every good neighbour",
			func(recs []*kgo.Record) bool { return hasKeys(recs, good...) })
		judgeNeighbours(t, due, good)
		rejected := w.follow(t, "rejected").until(30*time.Second, "every bad record",
			func(recs []*kgo.Record) bool { return len(recs) > len(all)+len(badReceipts) })
		judgeRejected(t, w, all, rejected)
		if lag, ready := w.lag(t); lag != 0 || !ready {
			t.Errorf("lag %d, ready %v", lag, ready)
		}
		if a := w.call(t, http.MethodGet, "/readyz", ""); a.status != http.StatusOK {
			t.Errorf("readyz: %v", a)
		}
	})
}

// refusesNullKeys: a compacted topic takes no record without a key, here as there.
func refusesNullKeys(t *testing.T, w *world, cl *kgo.Client) {
	t.Helper()
	err := cl.ProduceSync(context.Background(), &kgo.Record{
		Topic: w.topic("commands"),
		Value: []byte(`{"op":"register","delay":"1s"}`),
	}).FirstErr()
	if !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("null key: %v, want %v", err, kerr.InvalidRecord)
	}
}

func judgeNeighbours(t *testing.T, due []*kgo.Record, good []string) {
	t.Helper()
	if len(due) != len(good) {
		t.Errorf("%d due events of %d good neighbours", len(due), len(good))
	}
	for _, r := range due {
		at, err := time.Parse(time.RFC3339, header(r, "ce_time"))
		if err != nil {
			t.Fatal(err)
		}
		if late := r.Timestamp.Sub(at); late < 0 || late > 5*time.Second {
			t.Errorf("%s fired %v after its time", r.Key, late)
		}
	}
}

func judgeRejected(t *testing.T, w *world, all []bad, rejected []*kgo.Record) {
	t.Helper()
	commands := slices.DeleteFunc(slices.Clone(rejected), func(r *kgo.Record) bool {
		return strings.Contains(header(r,
			"wc-source"), "receipts/")
	})
	if receipts := len(rejected) - len(commands); len(commands) != len(all) || receipts != len(badReceipts)+1 {
		t.Errorf("%d commands and %d receipts on rejected, want %d and %d", len(commands), receipts, len(all),
			len(badReceipts)+1)
	}
	reasons := map[string]string{} // by source
	for _, e := range dump(t, w.brokers, w.topic("events")) {
		if ev, err := topics.DecodeEvent(e.Value); err == nil && ev.Type == "command.rejected" {
			if _, twice := reasons[ev.Source]; twice {
				t.Errorf("two events for %s", ev.Source)
			}
			reasons[ev.Source] = ev.Reason
		}
	}
	if len(reasons) != len(rejected) {
		t.Errorf("%d command.rejected events, %d records on rejected", len(reasons), len(rejected))
	}
	for i := range all {
		b := &all[i]
		for _, r := range commands {
			if bytes.Equal(r.Key, b.key) {
				judgeOne(t, b, r, reasons)
			}
		}
	}
}

func judgeOne(t *testing.T, b *bad, r *kgo.Record, reasons map[string]string) {
	t.Helper()
	code, field, detail, source := header(r, "wc-error-code"), header(r, "wc-error-field"),
		header(r, "wc-error-detail"), header(r, "wc-source")
	switch {
	case code == "" || detail == "":
		t.Errorf("%s: code %q, detail %q", b.name, code, detail)
	case b.code != "" && code != b.code:
		t.Errorf("%s: code %q (%s), want %q", b.name, code, detail, b.code)
	case b.field != "" && field != b.field:
		t.Errorf("%s: field %q (%s), want %q", b.name, field, detail, b.field)
	case !strings.Contains(strings.ToLower(detail), strings.ToLower(b.detail)):
		t.Errorf("%s: detail %q, want %q in it", b.name, detail, b.detail)
	}
	if !strings.Contains(source, "commands/") || strings.Count(source, "/") != 2 {
		t.Errorf("%s: wc-source %q", b.name, source)
	}
	if reasons[source] != code {
		t.Errorf("%s: the event of %s says %q, the record %q", b.name, source, reasons[source], code)
	}
	if !bytes.Equal(r.Value, b.value) || (r.Value == nil) != (b.value == nil) {
		t.Errorf("%s: the value came back changed, %d bytes for %d", b.name, len(r.Value), len(b.value))
	}
	cut := header(r, "wc-error-truncated") != ""
	for i, h := range b.headers {
		if !cut && (i >= len(r.Headers) || r.Headers[i].Key != h.Key || !bytes.Equal(r.Headers[i].Value, h.Value)) {
			t.Errorf("%s: header %s came back changed", b.name, h.Key)
			return
		}
	}
}
