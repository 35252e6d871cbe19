package topics

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

func fullFire() *trigger.Fire {
	return &trigger.Fire{
		Key: "acme/pills", Occurrence: "2026-11-20T09:00:00", Step: 1, Attempt: 2, Revision: 3, Channel: "webhook",
		Nominal: 1_795_183_200_000, Fired: 1_795_183_200_007, Local: "2026-11-20T09:00:00[America/New_York]",
		Expires: 1_795_186_800_000,
		Spec: &trigger.Spec{
			UserID: "u_81", Payload: []byte(`{"title":"Take pills"}`), ContentType: "application/json",
			TargetKey: "patient-9",
			Headers:   headers("x-a=1", "x-b="), Tags: []trigger.Tag{
				{Key: "a", Value: "1"},
				{Key: "type", Value: "medication \"1\""},
			}, Priority: trigger.Normal,
			TraceParent: "00-4bf9-00f0-01", Callback: &trigger.Callback{
				URL:     "https://a.example/x?y=1",
				Timeout: 1500 * time.Millisecond,
			},
		},
	}
}

var dueEnv = DueEnv{Cluster: "eu1", Basis: Basis(7, 812, 1000, 500, 3)}

func headerPairs(hs []trigger.Header) string {
	var b strings.Builder
	for _, h := range hs {
		b.WriteString(h.Key + "=" + string(h.Value) + "\n")
	}
	return b.String()
}

// docs/formats/due.md: names, formats and order.
func TestDueRecord(t *testing.T) {
	key, value, hs := DueRecord(fullFire(), dueEnv)
	want := `ce_specversion=1.0
ce_id=acme/pills@2026-11-20T09:00:00#1
ce_source=/waterclock/eu1
ce_type=waterclock.due.v1
ce_subject=acme/pills
ce_time=2026-11-20T14:00:00.000Z
ce_wcfired=2026-11-20T14:00:00.007Z
ce_wcrevision=3
ce_wcattempt=2
ce_wcstep=1
ce_wclocaltime=2026-11-20T09:00:00[America/New_York]
ce_wcuser=u_81
ce_expirytime=2026-11-20T15:00:00.000Z
ce_wcbasis=7.812.1000.500.3
content-type=application/json
traceparent=00-4bf9-00f0-01
wcx-callback={"url":"https://a.example/x?y=1","timeout":"1500ms"}
wcx-tags={"a":"1","type":"medication \"1\""}
x-a=1
x-b=
`
	if got := headerPairs(hs); got != want {
		t.Errorf("headers\n%s\nwant\n%s", got, want)
	}
	if string(key) != "patient-9" || string(value) != `{"title":"Take pills"}` {
		t.Errorf("key %q, value %q", key, value)
	}
}

func TestDueRecordOfTheBarest(t *testing.T) {
	f := &trigger.Fire{
		Key: "k", Occurrence: "2026-11-20T14:00:00.000Z", Attempt: 1, Revision: 1,
		Nominal: 1_795_183_200_000, Fired: 1_795_183_200_001,
		Spec: &trigger.Spec{Headers: []trigger.Header{{Key: "x"}}},
	}
	key, value, hs := DueRecord(f, DueEnv{Cluster: "local"})
	if string(key) != "k" || value == nil || len(value) != 0 {
		t.Errorf("key %q, value %v: want the trigger's key and a value that is empty and not null", key, value)
	}
	for _, h := range hs {
		if h.Value == nil {
			t.Errorf("header %s is null", h.Key)
		}
	}
	for _, absent := range []string{
		ceLocalTime, ceUser, ceExpiry, ceBasis, contentType, traceParent, dueCallback,
		dueTags,
	} {
		if strings.Contains(headerPairs(hs), absent+"=") {
			t.Errorf("%s is there with nothing to say", absent)
		}
	}
}

func TestDecodeDueReadsWhatWasWritten(t *testing.T) {
	want := fullFire()
	key, value, hs := DueRecord(want, dueEnv)
	got, err := DecodeDue(&Record{Key: key, Value: value, Headers: hs})
	if err != nil {
		t.Fatal(err)
	}
	want.Channel = "" // in the topic's name
	want.Spec.Headers[1].Value = []byte{}
	if !reflect.DeepEqual(&got.Fire, want) || got.Basis != dueEnv.Basis || got.Tags["a"] != "1" {
		t.Errorf("got  %+v %+v\nwant %+v %+v", got.Fire, got.Fire.Spec, want, want.Spec)
	}
}

// A worker hears of an escalation at its first step too: the link to acknowledge stops the others.
func TestDueRecordOfAnEscalation(t *testing.T) {
	for steps, want := range map[int]string{0: "", 1: "", 3: "wcx-steps=3\n"} {
		f := fullFire()
		f.Step = 0
		f.Spec.Escalation = make([]trigger.Step, steps)
		key, value, hs := DueRecord(f, dueEnv)
		got := headerPairs(hs)
		if strings.Contains(got, "wcx-steps") != (want != "") || !strings.Contains(got, want+"x-a=1\n") {
			t.Errorf("%d steps:\n%s", steps, got)
		}
		d, err := DecodeDue(&Record{Key: key, Value: value, Headers: hs})
		if err != nil || len(d.Fire.Spec.Headers) != 2 {
			t.Errorf("%d steps: the user's headers are %v, %v", steps, d.Fire.Spec.Headers, err)
		}
	}
}

// A worker reads what it can: garbled extras must not cost it the event.
func TestDecodeDueOfGarbledHeaders(t *testing.T) {
	got, err := DecodeDue(&Record{Key: []byte("k"), Headers: headers("ce_id=k@x#0", "ce_time=noon", "ce_wcattempt=many",
		"wcx-callback={", "wcx-tags=[]", "x-a=1")})
	if err != nil || got.Fire.Key != "k" || got.Fire.Nominal != 0 || got.Fire.Attempt != 0 ||
		got.Fire.Spec.Callback != nil || len(got.Fire.Spec.Headers) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, hs := range map[string][]trigger.Header{
		"no ce_id":        headers("x=1"),
		"a garbled ce_id": headers("ce_id=x"),
	} {
		if _, err := DecodeDue(&Record{Headers: hs}); err == nil {
			t.Errorf("%s passed for a due event", name)
		}
		if _, err := DecodeDeadLetter(&Record{Headers: hs}); err == nil {
			t.Errorf("%s passed for a dead letter", name)
		}
	}
}

func TestParseDueID(t *testing.T) {
	for _, c := range []struct {
		name, id, key, occurrence string
		step                      int
		ok                        bool
	}{
		{"plain", "k@2026-11-20T14:00:00.000Z#0", "k", "2026-11-20T14:00:00.000Z", 0, true},
		{
			"a key with @ and #", "a@b#c@2026-11-20T09:00:00+f1~3-17#12", "a@b#c", "2026-11-20T09:00:00+f1~3-17", 12,
			true,
		},
		{"tenant", "acme/k@snz-3-17#0", "acme/k", "snz-3-17", 0, true},
		{"no step", "k@x", "", "", 0, false},
		{"empty step", "k@x#", "", "", 0, false},
		{"step in words", "k@x#one", "", "", 0, false},
		{"signed step", "k@x#+1", "", "", 0, false},
		{"step with a leading zero", "k@x#01", "", "", 0, false},
		{"no occurrence", "k@#0", "", "", 0, false},
		{"no key", "@x#0", "", "", 0, false},
		{"bad key", "default/k@x#0", "", "", 0, false},
		{"empty", "", "", "", 0, false},
	} {
		key, occurrence, step, err := ParseDueID(c.id)
		if (err == nil) != c.ok || string(key) != c.key || occurrence != c.occurrence || step != c.step {
			t.Errorf("%s: got %q %q %d, %v", c.name, key, occurrence, step, err)
		}
		if c.ok && trigger.DueID(key, occurrence, step) != c.id {
			t.Errorf("%s: spelled again %q", c.name, trigger.DueID(key, occurrence, step))
		}
	}
}

func TestAppendInstant(t *testing.T) {
	for day := trigger.Instant(-62_135_596_800_000); day < 4_200_000_000_000; day += 86_400_000*13 + 7 {
		if got := string(appendInstant(nil, day)); got != day.String() {
			t.Fatalf("%d: got %s, want %s", int64(day), got, day)
		}
	}
	for _, i := range []trigger.Instant{
		-62_167_219_200_000, -62_167_219_200_001, 253_402_300_800_000, 1, 999,
		1_790_000_000_000, 951_782_400_000, 951_868_799_999, 4_102_444_800_000, 1_709_164_800_123, -1,
		-62_135_596_800_000, 253_402_300_799_999,
	} {
		if got := string(appendInstant(nil, i)); got != i.String() {
			t.Errorf("%d: got %s, want %s", int64(i), got, i)
		}
	}
}

func TestBasisIsReadable(t *testing.T) {
	if got := Basis(1, 2, 3, 4, 5); got != "1.2.3.4.5" {
		t.Error(got)
	}
}
