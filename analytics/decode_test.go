package analytics

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

func rowOf(value string, u Users) (out Row, counted File) {
	d := &decoder{hide: newHider(u)}
	at := time.UnixMilli(1_790_000_000_500)
	d.row(&kgo.Record{Partition: 3, Offset: 7, Value: []byte(value), Timestamp: at}, &out)
	counted.count(&out)
	return out, counted
}

const full = `{"event_id":"3-1790000000000123","type":"trigger.registered","version":1,"trigger":"hold-8c4",
"tenant":"acme","revision":2,"seq":1,"occurred_at":"2026-09-21T14:20:20.003Z","event_us":1790000000000123,
"channel":"orders","user_id":"ada","scheduled_at":"2026-09-21T14:20:20.000Z","local_time":"2026-09-21T16:20:20",
"timezone":"Europe/Berlin","tzdata":"2026a","occurrence":"2026-09-21T14:20:20.000Z","step":0,"attempt":1,
"state":"PENDING","previous_state":"FIRED","lateness_ms":0,"reason":"r","detail":"d","actor":"a",
"source":"waterclock.commands/3/9","due_topic":"waterclock.due.orders","due_partition":0,"correlation_id":"c",
"tags":{"team":"seats"},"payload":{"secret":"s3cret"},"payload_base64":"c2VjcmV0","count":4,
"first":"2026-09-21T14:20:21.000Z","last":"2026-09-21T14:20:22.000Z",
"previous_scheduled_at":"2026-09-21T14:20:23.000Z","previous_tzdata":"2025c",
"first_fired_at":"2026-09-21T14:20:24.000Z","truncated":["payload","tags"],"rule":{"every":"1h"},
"next_at":"2026-09-21T15:20:20.000Z","effective_at":"2026-09-21T14:20:20.001Z"%}`

// Every field of an event is a column, but the payload.
func TestRow(t *testing.T) {
	row, counted := rowOf(strings.Replace(full, "%", "", 1), Users{Plain: true})
	if row.Step == nil || *row.Step != 0 || row.LatenessMS == nil || *row.LatenessMS != 0 || row.DuePartition == nil {
		t.Errorf("zeros that mean something are lost: %+v", row)
	}
	row.Step, row.DuePartition, row.LatenessMS = nil, nil, nil
	tags := row.Tags
	row.Tags = nil
	base := time.Date(2026, 9, 21, 14, 20, 20, 0, time.UTC).UnixMilli()
	want := Row{
		Partition: 3, Offset: 7, Appended: 1_790_000_000_500, EventID: "3-1790000000000123", Type: "trigger.registered",
		Version: 1, Trigger: "hold-8c4", Tenant: "acme", Revision: 2, Seq: 1, OccurredAt: base + 3,
		EventUS: 1790000000000123, ScheduledAt: base, NextAt: base + 3_600_000, EffectiveAt: base + 1,
		FirstFired: base + 4000, Previous: base + 3000, First: base + 1000, Last: base + 2000,
		Occurrence: "2026-09-21T14:20:20.000Z", LocalTime: "2026-09-21T16:20:20", Timezone: "Europe/Berlin",
		TZData: "2026a", PreviousTZ: "2025c", Channel: "orders", UserID: "ada", Attempt: 1, State: "PENDING",
		PreviousState: "FIRED", Reason: "r", Detail: "d", Actor: "a", Source: "waterclock.commands/3/9",
		DueTopic: "waterclock.due.orders", CorrelationID: "c", Count: 4, Truncated: "payload,tags",
		Rule: `{"every":"1h"}`,
	}
	if !reflect.DeepEqual(row, want) || tags["team"] != "seats" || counted.Unknown != 0 || counted.NotEvents != 0 {
		t.Errorf("got  %+v\nwant %+v", row, want)
	}
}

// What a newer engine says more is kept, and counted.
func TestUnknownFields(t *testing.T) {
	row, counted := rowOf(strings.Replace(full, "%", `,"mood":"good","more":{"a":1}`, 1), Users{})
	if row.Extra != `{"mood":"good","more":{"a":1}}` || counted.Unknown != 2 || row.Type == "" {
		t.Errorf("extra %q, %d unknown", row.Extra, counted.Unknown)
	}
	if row, counted := rowOf(`{"type":"trigger.teleported","event_us":5,"version":9}`, Users{}); row.Version != 9 ||
		row.Type != "trigger.teleported" || counted.NotEvents != 0 {
		t.Errorf("%+v", row)
	}
}

// The fast reader and the library give the same row. What only the library reads is not lost.
func TestFastReader(t *testing.T) {
	event := func(more string) string {
		return strings.ReplaceAll(strings.ReplaceAll(full, "%", more), "\n", "")
	}
	plain := strings.Replace(event(""), `"truncated":["payload","tags"],`, "", 1)
	for _, c := range []struct {
		name, value, extra string
		fast               bool
	}{
		{"plain", plain, "", true},
		{"a list", event(""), "", false},
		{"an unknown field", strings.TrimSuffix(plain, "}") + `,"mood":"good"}`, `{"mood":"good"}`, false},
		{"an escape", strings.Replace(plain, `"detail":"d"`, `"detail":"\u0064"`, 1), "", false},
		{"a large value", strings.Replace(plain, "s3cret", strings.Repeat("s", mostShared), 1), "", false},
	} {
		if fast := len(c.value) <= mostShared && topics.ReadEvent([]byte(c.value), &topics.Event{}); fast != c.fast {
			t.Errorf("%s: fast reader %v, want %v", c.name, fast, c.fast)
		}
		got, counted := rowOf(c.value, Users{Plain: true})
		want, _ := rowOf(" "+c.value, Users{Plain: true}) // white space: the library reads it
		if !reflect.DeepEqual(got, want) || counted.NotEvents != 0 || got.Detail != "d" || got.Extra != c.extra {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, got, want)
		}
	}
}

// What is no event has a row of its own, without what stands in it.
func TestGarbage(t *testing.T) {
	for _, value := range []string{
		"", "{", "garbage grace", "null", "[]", `{"type":"x","event_us":0}`, `{"event_us":5}`,
		`{"type":"x","event_us":5,"step":4294967296}`, `{"type":"x","event_us":5,"occurred_at":"grace"}`,
		`{"type":"x","event_us":5,"trigger":7}`, `{"type":"x","event_us":99999999999999999}`, "\xff\xfe",
		`{"type":"x","event_us":5} grace`,
	} {
		row, counted := rowOf(value, Users{Plain: true})
		if row.Type != "" || row.EventUS != 0 || row.Partition != 3 || row.Offset != 7 || counted.NotEvents != 1 ||
			!strings.HasPrefix(row.Extra, `{"not_an_event":{"bytes":`) || strings.Contains(row.Extra, "grace") {
			t.Errorf("%q is %+v", value, row)
		}
	}
}

// No payload is in the files, and no user without leave. Hashes depend on the key, and for
// tags on their name.
func TestHidden(t *testing.T) {
	value := strings.Replace(full, "%", "", 1)
	key := Users{Key: []byte("0123456789abcdef")}
	hashed, _ := rowOf(value, key)
	same, _ := rowOf(value, key)
	other, _ := rowOf(value, Users{Key: []byte("0123456789abcdeg")})
	absent, _ := rowOf(value, Users{})
	if u := hashed.UserID; len(u) != 16 || u != same.UserID || u == other.UserID || absent.UserID != "" {
		t.Errorf("users %q %q %q %q", hashed.UserID, same.UserID, other.UserID, absent.UserID)
	}
	h := hashed.Tags["team"]
	if len(h) != 16 || h != same.Tags["team"] || h == other.Tags["team"] || absent.Tags != nil {
		t.Errorf("tags %v %v %v", hashed.Tags, other.Tags, absent.Tags)
	}
	if h := newHider(key); h.hashed("tag\x00a\x00", "v") == h.hashed("tag\x00b\x00", "v") ||
		h.hashed("tag\x00a\x00", "v") == h.hashed("user\x00", "v") {
		t.Error("the same hash for two names")
	}
	for _, row := range []Row{hashed, absent} {
		for _, text := range []string{row.UserID, row.Extra, row.Tags["team"], row.Rule, row.Detail} {
			if strings.Contains(text, "s3cret") || strings.Contains(text, "ada") || strings.Contains(text, "seats") {
				t.Errorf("%q is in the row", text)
			}
		}
	}
}

// A field of topics.Event that has no column goes into extra, so it is not lost. But then
// somebody should have made a column for it.
func TestEveryFieldHasAColumn(t *testing.T) {
	columns := map[string]bool{"payload": true, "payload_base64": true} // never exported
	for _, c := range Columns() {
		columns[c.Name] = true
	}
	for f := range reflect.TypeFor[topics.Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !columns[name] {
			t.Errorf("%s has no column", name)
		}
	}
}

// Field ids are for ever. A new column is added here with the next number.
func TestFieldIDsAreFrozen(t *testing.T) {
	const frozen = "log_partition 1, log_offset 2, appended_at 3, event_id 4, type 5, version 6, trigger 7, " +
		"tenant 8, revision 9, seq 10, occurred_at 11, event_us 12, scheduled_at 13, next_at 14, " +
		"effective_at 15, first_fired_at 16, previous_scheduled_at 17, first 18, last 19, occurrence " +
		"20, local_time 21, timezone 22, tzdata 23, previous_tzdata 24, channel 25, user_id 26, step " +
		"27, attempt 28, state 29, previous_state 30, lateness_ms 31, reason 32, detail 33, actor 34, " +
		"source 35, due_topic 36, due_partition 37, correlation_id 38, count 39, truncated 40, rule " +
		"41, tags 42, extra 45"
	var got []string
	for _, c := range Columns() {
		got = append(got, c.Name+" "+strconv.Itoa(c.ID))
	}
	if text := strings.Join(got, ", "); text != frozen {
		t.Errorf("columns are\n%s\nwant\n%s", text, frozen)
	}
}

// TestInstants: what is read without the library is what the library reads.
func TestInstants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	plain := 0
	d := instants{}
	for range 20_000 {
		text := []byte(time.UnixMilli(r.Int64N(4_000_000_000_000)).UTC().Format("2006-01-02T15:04:05.000Z"))
		if r.IntN(2) == 0 {
			copy(text, "2026-12-31")
		}
		for range r.IntN(3) {
			text[r.IntN(len(text))] = "0123456789-:.TZ+ x"[r.IntN(18)]
		}
		if r.IntN(10) == 0 {
			text = text[:r.IntN(len(text)+1)]
		}
		want, wantErr := time.Parse(time.RFC3339, string(text))
		got, err := d.parse(string(text))
		if (err == nil) != (wantErr == nil) || err == nil && got != want.UnixMilli() {
			t.Fatalf("%s: %d, %v, want %v, %v", text, got, err, want, wantErr)
		}
		if _, ok := timeOfDay(string(text)); ok && err == nil {
			plain++
		}
	}
	if plain < 5000 {
		t.Errorf("only %d were plain", plain)
	}
}
