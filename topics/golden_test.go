package topics

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Golden bytes must be what we write today and must decode for ever. A format
// that changes gets new files (…-v2) beside the old ones, which stay.
var update = flag.Bool("update", false, "write testdata/golden anew")

type golden struct {
	name  string
	bytes []byte
}

func goldenState() *trigger.State {
	return &trigger.State{
		Key: "acme/pills", Status: trigger.Pending, Revision: 3, Seq: 12, Hash: trigger.Hash{1, 2, 3, 15: 16},
		Life: trigger.Life{Partition: 3, Offset: 4711, Later: true},
		Spec: trigger.Spec{
			When: trigger.When{
				Kind: trigger.WhenRecurrence, Zone: "America/New_York",
				Recurrence: "RRULE:FREQ=WEEKLY;BYDAY=MO,WE", Start: "2026-11-20T09:00:00",
				Include: []string{"2026-12-24"}, Exclude: []string{"2026-12-25"}, Until: "2027-11-20T09:00:00",
				Count:     100,
				DST:       trigger.DST{Gap: "skip", Overlap: "both"},
				Calendars: &trigger.Calendars{Names: []string{"us-holidays"}, On: "skip"},
			},
			Channel: "webhook", UserID: "u_81", Payload: []byte(`{"title":"Take pills"}`),
			ContentType: "application/json", TargetKey: "patient-9",
			Headers: headers("x-a=1"), Tags: []trigger.Tag{{Key: "type", Value: "medication"}}, Priority: trigger.High,
			Jitter:  5 * time.Second,
			Expires: time.Hour, Misfire: trigger.FireAll, FollowUser: true, CorrelationID: "c-1",
			TraceParent: "00-4bf9-00f0-01",
			Callback: &trigger.Callback{
				URL: "https://a.example/x", Timeout: 5 * time.Second,
				Retry: []time.Duration{10 * time.Second, 30 * time.Second},
			},
		},
		Series: trigger.Series{
			At: 1_795_183_200_000, Occurrence: "2026-11-20T09:00:00~3-4711",
			Local: "2026-11-20T09:00:00[America/New_York]",
			Start: "2026-11-20T09:00:00", After: 1_790_000_000_000, TZData: "2026a", Skip: []string{"2026-11-25"},
			Jitter: 1200, MissedUntil: 1_780_000_000_000, Retry: 2, RetryAt: 1_795_183_260_000,
		},
		Live: []trigger.Live{
			{
				Kind: trigger.LiveInFlight, Occurrence: "2026-11-18T09:00:00", Nominal: 1_795_010_400_000,
				Local: "2026-11-18T09:00:00[America/New_York]",
				Due:   1_795_014_000_000, Step: 1, Attempt: 2, Revision: 2, Accepted: true,
				Was: &trigger.Spec{Channel: "push", Priority: trigger.Low}, EmitRetry: 1,
			},
			{
				Kind: trigger.LiveRunNow, Occurrence: "run-3-4800", Nominal: 1_795_010_500_000, Due: 1_795_010_500_000,
				Attempt: 1, Revision: 3,
			},
		},
		Keys: []trigger.IdempotencyKey{{Key: "i-1", Hash: trigger.Hash{9}}},
		Done: []trigger.Firing{{
			Occurrence: "2026-11-16T09:00:00", At: 1_794_837_600_003,
			Nominal: 1_794_837_600_000, Topic: "waterclock.due.webhook", Partition: 3,
		}},
		LastAppend: 1_790_000_000_000, CreatedAt: 1_780_000_000_000, UpdatedAt: 1_790_000_000_000,
		ForgetAt: 1_800_000_000_000, Note: "on leave", Trimmed: true,
	}
}

// goldenStateV2 has what format 2 added.
func goldenStateV2() *trigger.State {
	s := goldenState()
	s.Spec.Callback.Raw, s.Spec.Callback.Recheck = true, true
	s.Live[0].Postponed, s.Live[0].FirstSent, s.Live[0].AttemptsBeforeRedrive = 3, 1_795_010_400_007, 6
	s.Redriven = []trigger.Redrive{{Occurrence: "2026-11-18T09:00:00", Step: 1, Attempt: 6}}
	s.Spec.Escalation = []trigger.Step{{Channel: "webhook"}, {Channel: "sms", After: 5 * time.Minute}}
	s.Live[0].FirstFired, s.Live[0].NextStep = 1_795_010_400_002, 1_795_010_700_007
	s.Live = append(s.Live, trigger.Live{
		Kind: trigger.LiveEscalating, Occurrence: "2026-11-17T09:00:00", Nominal: 1_794_924_000_000,
		Due: 1_794_924_300_000, NextStep: 1_794_924_300_000, Attempt: 1, Revision: 3, Accepted: true,
	})
	return s
}

// goldenStateV3 has what format 3 added.
func goldenStateV3() *trigger.State {
	s := goldenStateV2()
	s.Erasure = trigger.Erasure{Revision: 2, Partition: 3, Offset: 4_000_000_000}
	return s
}

// goldenStateV5 has what format 5 added.
func goldenStateV5() *trigger.State {
	s := goldenStateV3()
	s.Live[1].Note = "asked by phone"
	return s
}

// goldenStateV6 has what format 6 added.
func goldenStateV6() *trigger.State {
	s := goldenStateV5()
	s.Series.Decided = []trigger.NameStep{{Until: 32_400_000, Day: 20_777}, {Until: 86_399_999, Day: 20_774}}
	s.Series.Begun = []trigger.NameStep{{Until: 86_399_999, Day: 20_700}}
	return s
}

func goldenProgress() *Progress {
	return &Progress{
		NextCommand: 4812, NextReceipt: 911, NextControl: 3, EventUS: 1_790_000_000_000_123, Seq: 81_234,
		Term: 7, Format: Oldest,
		Applied: map[int32]int64{0: 17, 5: 4000}, Forwarded: map[int32]int64{1: 4800},
		Manifest: []TopicCount{{"waterclock.events", 12, 0xfeedface}},
		Owner:    "10.0.0.1:7070", Member: "node-1", At: 1_790_000_000_000, CommandsID: [16]byte{1, 15: 2},
		StateID: [16]byte{3, 15: 4}, Channels: []string{"default", "push"},
	}
}

// goldenProgressV4 has what format 4 added. The states before it are of format 3.
func goldenProgressV4() *Progress {
	p := goldenProgress()
	p.Format, p.FiredThrough = Erasures, 1_789_999_999_123
	p.PutOff = map[string]int64{"sms": 12, "push": 1}
	return p
}

func goldenFact() (*trigger.Fact, EventEnv) {
	return &trigger.Fact{
			Type: trigger.Replaced, Revision: 3, Seq: 12, Channel: "push", UserID: "u_81",
			Scheduled: 1_795_183_200_000,
			Local:     "2026-11-20T09:00:00[America/New_York]", Zone: "America/New_York", TZData: "2026a",
			Occurrence: "2026-11-20T09:00:00", HasStep: true, Step: 1, Attempt: 2,
			State: trigger.Pending, Previous: trigger.Paused, HasLate: true, Lateness: 7, Reason: "r",
			Detail: "line\nbreak \"quoted\"", Actor: "ops",
			HasDue: true, DueTopic: "waterclock.due.push", DuePart: 3, Corr: "c-1",
			Tags: []trigger.Tag{{Key: "type", Value: "medication"}},
			Spec: &trigger.Spec{Payload: []byte(`{ "title" : "Take pills" }`)}, Count: 4, First: 1_790_000_000_000,
			Last:              1_790_000_060_000,
			PreviousScheduled: 1_795_179_600_000, PreviousTZData: "2025c",
		},
		EventEnv{
			Partition: 3, EventUS: 1_790_000_000_000_123, At: 1_790_000_000_000,
			Source: "waterclock.commands/3/4711", WithPayload: true,
		}
}

// goldenRule has every field that a rule may have.
func goldenRule() *trigger.Spec {
	s := goldenStateV2().Spec
	return &s
}

func goldenEvents() []golden {
	full, env := goldenFact()
	return []golden{
		{"event-full", AppendEvent(nil, "acme/pills", full, env)},
		{"event-bare", AppendEvent(nil, "k", &trigger.Fact{Type: trigger.Rejected, Reason: "unknown_field"},
			EventEnv{At: 1_790_000_000_000, EventUS: 1})},
		{"event-first-fired", AppendEvent(nil, "k", &trigger.Fact{
			Type: trigger.DeliveryAccepted, Seq: 3, HasStep: true, Attempt: 1, State: trigger.Fired,
			Occurrence: "2026-11-20T09:00:00", FirstFired: 1_795_183_200_001,
		}, EventEnv{At: 1_795_183_200_900, EventUS: 3})},
		{"event-rule", AppendEvent(nil, "acme/pills", &trigger.Fact{
			Type: trigger.Registered, Revision: 1, Seq: 1, State: trigger.Pending, Rule: goldenRule(),
			Scheduled: 1_795_183_200_000, Next: 1_795_183_203_000,
		}, EventEnv{At: 1_790_000_000_000, EventUS: 4})},
		{"event-rule-bare", AppendEvent(nil, "k", &trigger.Fact{
			Type: trigger.Rescheduled, Seq: 2, State: trigger.Pending, Next: 1_795_183_200_000,
			Rule: &trigger.Spec{
				When:     trigger.When{Kind: trigger.WhenInstant, FireAt: 1_795_183_200_000},
				Priority: trigger.Normal,
			},
		}, EventEnv{At: 1_790_000_000_000, EventUS: 5})},
		{"event-effective", AppendEvent(nil, "k", &trigger.Fact{
			Type: trigger.OccurrenceFired, Seq: 2, HasStep: true, Attempt: 1, State: trigger.InFlight,
			Occurrence: "2026-11-20T09:00:00", Scheduled: 1_795_183_200_000, Due: 1_795_183_200_000,
			Lateness: 5000, HasLate: true,
		}, EventEnv{At: 1_795_183_205_000, EventUS: 6, EffectiveAt: 1_795_183_204_101})},
		{"event-base64", AppendEvent(nil, "k", &trigger.Fact{
			Type: trigger.Registered, Seq: 1,
			Spec: &trigger.Spec{Payload: []byte{0, 255}},
		}, EventEnv{
			At: 1_790_000_000_000, EventUS: 2,
			WithPayload: true,
		})},
	}
}

// recordText writes a record for people to read in a diff.
func recordText(key, value []byte, hs []trigger.Header) []byte {
	return []byte("key " + string(key) + "\nvalue " + string(value) + "\n" + headerPairs(hs))
}

func goldens(t *testing.T) []golden {
	state, err := AppendState(nil, goldenState())
	if err != nil {
		t.Fatal(err)
	}
	stateV2, err := AppendStateAs(nil, goldenStateV2(), Deliveries)
	if err != nil {
		t.Fatal(err)
	}
	stateV3, err := AppendStateAs(nil, goldenStateV3(), Erasures)
	if err != nil {
		t.Fatal(err)
	}
	stateV5, err := AppendStateAs(nil, goldenStateV5(), RunNotes)
	if err != nil {
		t.Fatal(err)
	}
	stateV6, err := AppendStateAs(nil, goldenStateV6(), DecidedNames)
	if err != nil {
		t.Fatal(err)
	}
	progress, err := AppendProgress(nil, goldenProgress())
	if err != nil {
		t.Fatal(err)
	}
	progressV4, err := AppendProgress(nil, goldenProgressV4())
	if err != nil {
		t.Fatal(err)
	}
	nonce, err := AppendNonce(nil, &Nonce{ID: [16]byte{1, 15: 2}, Member: "node-1", Term: 7, At: 1_790_000_000_000})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := AppendGuard(nil, someGuard())
	if err != nil {
		t.Fatal(err)
	}
	rejected := command("", "wc-dealy=7m", "a=1")
	_, refusal := DecodeCommand(rejected, Limits{}, nil)
	_, calendar, err := EncodeCalendar(Calendar{Name: "us-holidays", Dates: []string{"2026-07-04", "2026-12-25"}})
	if err != nil {
		t.Fatal(err)
	}
	dead := &trigger.DeadLetter{Fire: *fullFire(), Code: "http_410", Detail: "gone"}
	redrive, err := RedriveCommand(dead, "", "")
	if err != nil {
		t.Fatal(err)
	}
	postponed, retriedDead := *fullFire(), trigger.DeadLetter{Fire: *fullFire(), Code: "http_500", Detail: "oops"}
	postponed.ReceiptBy, postponed.Postponed, postponed.Spec.Callback = 1_795_186_800_007, 2, retried()
	retriedDead.Fire.Spec.Callback = retried()
	urgentDead := trigger.DeadLetter{Fire: *fullFire(), Code: "http_500", Detail: "oops"}
	urgentDead.Fire.Spec.Priority, urgentDead.Fire.Spec.CorrelationID = trigger.High, "order-7"
	firedDead := trigger.DeadLetter{Fire: *fullFire(), Code: "http_500", Detail: "oops"}
	firedDead.Fire.FirstFired = goldenFirstFired
	firedRedrive, err := RedriveCommand(&firedDead, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return append(goldenEvents(),
		golden{"state", []byte(hex.EncodeToString(state))},
		golden{"state-v2", []byte(hex.EncodeToString(stateV2))},
		golden{"state-v3", []byte(hex.EncodeToString(stateV3))},
		golden{"state-v5", []byte(hex.EncodeToString(stateV5))},
		golden{"state-v6", []byte(hex.EncodeToString(stateV6))},
		golden{"progress", []byte(hex.EncodeToString(progress))},
		golden{"progress-v4", []byte(hex.EncodeToString(progressV4))},
		golden{"nonce", []byte(hex.EncodeToString(nonce))},
		golden{"guard", []byte(hex.EncodeToString(guard))},
		golden{"due", recordText(DueRecord(fullFire(), dueEnv))},
		golden{"due-v2", recordText(DueRecord(&postponed, dueEnv))},
		golden{"dead-letter", recordText(DeadLetterRecord(dead, dueEnv))},
		golden{"dead-letter-v2", recordText(DeadLetterRecord(&retriedDead, dueEnv))},
		golden{"dead-letter-v3", recordText(DeadLetterRecord(&urgentDead, dueEnv))},
		golden{"dead-letter-v4", recordText(DeadLetterRecord(&firedDead, dueEnv))},
		golden{"rejected", recordText(RejectedRecord(rejected, refusal.(*trigger.Error)))},
		golden{"receipt", AppendReceipt(nil, &Receipt{
			Key: "acme/pills", Occurrence: "2026-11-20T09:00:00", Step: 1, Postponed: -1,
			Channel: "sms", Outcome: OutcomeRetry,
			Attempt: 2, Code: "busy", Detail: "later", RetryAfter: 30 * time.Second, At: 1_795_183_205_000,
		})},
		golden{"receipt-v2", AppendReceipt(nil, &Receipt{
			Key: "acme/pills", Occurrence: "2026-11-20T09:00:00", Step: 1, Outcome: OutcomePostponed,
			Attempt: 2, Postponed: 3, Code: "breaker_open", RetryAfter: time.Minute,
		})},
		golden{"calendar", calendar},
		golden{"forward", recordText(nil, nil, ForwardHeaders(headers("a=1"), claim))},
		golden{"redrive-v2", redrive},
		golden{"redrive-v3", firedRedrive},
		golden{"watermark", goldenWatermark().Value()},
		golden{"audit", goldenAudit().Value()},
	)
}

// goldenPath is the file of a name, which has its version behind it unless that is 1.
func goldenPath(name string) string {
	if !strings.Contains(name, "-v") {
		name += "-v1"
	}
	return filepath.Join("testdata", "golden", name+".txt")
}

func TestGoldenIsWhatWeWrite(t *testing.T) {
	for _, g := range goldens(t) {
		if *update {
			if err := os.WriteFile(goldenPath(g.name), append(g.bytes, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(goldenPath(g.name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.TrimSuffix(want, []byte("\n")), g.bytes) {
			t.Errorf("%s changed:\n%s\nwas\n%s", g.name, g.bytes, want)
		}
	}
}

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(goldenPath(name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b, []byte("\n"))
}

func readGoldenHex(t *testing.T, name string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(readGolden(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenDecodes(t *testing.T) {
	if s, err := DecodeState("acme/pills", readGoldenHex(t, "state")); err != nil ||
		!reflect.DeepEqual(s, goldenState()) {
		t.Errorf("state: %+v, %v", s, err)
	}
	if s, err := DecodeState("acme/pills", readGoldenHex(t, "state-v2")); err != nil ||
		!reflect.DeepEqual(s, goldenStateV2()) {
		t.Errorf("state of format 2: %+v, %v", s, err)
	}
	if s, err := DecodeState("acme/pills", readGoldenHex(t, "state-v3")); err != nil ||
		!reflect.DeepEqual(s, goldenStateV3()) {
		t.Errorf("state of format 3: %+v, %v", s, err)
	}
	if s, err := DecodeState("acme/pills", readGoldenHex(t, "state-v6")); err != nil ||
		!reflect.DeepEqual(s, goldenStateV6()) {
		t.Errorf("state of format 6: %+v, %v", s, err)
	}
	if s, err := DecodeState("acme/pills", readGoldenHex(t, "state-v5")); err != nil ||
		!reflect.DeepEqual(s, goldenStateV5()) {
		t.Errorf("state of format 5: %+v, %v", s, err)
	}
	if p, err := DecodeProgress(readGoldenHex(t, "progress")); err != nil || !reflect.DeepEqual(p, goldenProgress()) {
		t.Errorf("progress: %+v, %v", p, err)
	}
	if p, err := DecodeProgress(readGoldenHex(t, "progress-v4")); err != nil ||
		!reflect.DeepEqual(p, goldenProgressV4()) {
		t.Errorf("progress of format 4: %+v, %v", p, err)
	}
	if n, err := DecodeNonce(readGoldenHex(t, "nonce")); err != nil || n.Term != 7 {
		t.Errorf("nonce: %+v, %v", n, err)
	}
	if g, err := DecodeGuard(readGoldenHex(t, "guard")); err != nil || !reflect.DeepEqual(g, someGuard()) {
		t.Errorf("guard: %+v, %v", g, err)
	}
	fact, env := goldenFact()
	e, err := DecodeEvent(readGolden(t, "event-full"))
	want := event("acme/pills", fact, env)
	want.Payload = json.RawMessage(`{"title":"Take pills"}`)
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("event: %+v, %v", e, err)
	}
	if r, err := DecodeReceipt(&Record{Key: []byte("acme/pills"), Value: readGolden(t, "receipt")}); err != nil ||
		r.RetryAfter != 30*time.Second || r.Postponed != -1 {
		t.Errorf("receipt: %+v, %v", r, err)
	}
	if r, err := DecodeReceipt(&Record{Key: []byte("acme/pills"), Value: readGolden(t, "receipt-v2")}); err != nil ||
		r.Postponed != 3 {
		t.Errorf("receipt that names its emission: %+v, %v", r, err)
	}
	if w, err := DecodeWatermark([]byte("3"), readGolden(t, "watermark")); err != nil ||
		!reflect.DeepEqual(w, goldenWatermark()) {
		t.Errorf("watermark: %+v, %v", w, err)
	}
	if a, err := DecodeAudit([]byte("acme"), readGolden(t, "audit")); err != nil ||
		!reflect.DeepEqual(a, goldenAudit()) {
		t.Errorf("audit: %+v, %v", a, err)
	}
	if s, err := DecodeSetting(&Record{
		Key:   []byte("calendar/us-holidays"),
		Value: readGolden(t, "calendar"),
	}); err != nil || len(s.Calendar.Dates) != 2 {
		t.Errorf("calendar: %+v, %v", s, err)
	}
	for name, expires := range map[string]trigger.Instant{"redrive": 0, "redrive-v2": 1_795_186_800_000} {
		c, err := DecodeCommand(&Record{Key: []byte("acme/pills"), Value: readGolden(t, name)}, Limits{}, nil)
		if err != nil || c.Dead == nil || c.Dead.Attempt != 2 || c.Dead.Expires != expires {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	c, err := DecodeCommand(&Record{Key: []byte("acme/pills"), Value: readGolden(t, "redrive-v3")}, Limits{}, nil)
	if err != nil || c.Dead == nil || c.Dead.FirstFired != goldenFirstFired {
		t.Errorf("redrive-v3: %+v, %v", c, err)
	}
}

const goldenFirstFired = 1_795_183_200_003

// Commands in files: what a client of any release has written must go on
// meaning what it meant, content hash included, or a late duplicate would be
// taken for a change.
func TestGoldenCommands(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "commands", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(text), "\n----\n")
			got := decodedText(commandFile(input))
			if *update {
				if err := os.WriteFile(file, []byte(input+"\n----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !found || got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// commandFile reads "header: value" lines, an empty line, and the value.
func commandFile(text string) *Record {
	head, value, _ := strings.Cut(text, "\n\n")
	rec := command(value)
	for line := range strings.Lines(head) {
		name, v, ok := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if ok {
			rec.Headers = append(rec.Headers, header(name, v))
		}
	}
	return rec
}

func decodedText(rec *Record) string {
	c, err := DecodeCommand(rec, Limits{}, nil)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	b.WriteString(c.Op.String() + " hash " + hex.EncodeToString(c.Hash[:]) + "\n")
	flat := *c
	flat.Spec = nil
	writeFields(&b, "", reflect.ValueOf(flat))
	if c.Spec != nil {
		writeFields(&b, "spec.", reflect.ValueOf(*c.Spec))
	}
	return b.String()
}

// writeFields writes every field that is not zero on a line of its own.
func writeFields(b *strings.Builder, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.IsZero() || name == "Hash" {
			continue
		}
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		if f.Kind() == reflect.Struct {
			writeFields(b, prefix+name+".", f)
			continue
		}
		text, _ := json.Marshal(f.Interface())
		if p, ok := f.Interface().([]byte); ok {
			text = strconv.AppendQuote(nil, string(p))
		}
		b.WriteString(prefix + name + " " + string(text) + "\n")
	}
}
