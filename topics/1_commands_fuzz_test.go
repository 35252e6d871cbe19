package topics

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// fuzzCommand holds every answer of DecodeCommand to what it promises.
func fuzzCommand(t *testing.T, rec *Record) {
	before, l := bytes.Clone(rec.Value), Limits{}.withDefaults()
	c, err := DecodeCommand(rec, l, nil)
	if !bytes.Equal(before, rec.Value) {
		t.Fatal("the record was written to")
	}
	if err != nil {
		if e, ok := errors.AsType[*trigger.Error](err); !ok || e.Code == "" || c != nil {
			t.Fatalf("got %+v, %v", c, err)
		}
		RejectedRecord(rec, err.(*trigger.Error))
		return
	}
	if c.Key != trigger.Key(rec.Key) || (c.Op == trigger.OpRegister) != (c.Hash != trigger.Hash{}) {
		t.Fatalf("got %+v", c)
	}
	if c.Op == trigger.OpRegister && (len(c.Spec.Payload) > l.Payload || len(c.Spec.Headers) > l.Headers ||
		!ValidChannel(c.Spec.Channel) || c.Spec.When.Kind == trigger.WhenNone) {
		t.Fatalf("a bound was passed: %+v", c.Spec)
	}
	if c.Spec == nil {
		return
	}
	// What was accepted must be able to stand in topic state, and on due.
	if _, err := AppendState(nil, &trigger.State{Key: c.Key, Spec: *c.Spec}); err != nil {
		t.Fatal(err)
	}
	DueRecord(&trigger.Fire{Key: c.Key, Spec: c.Spec, Occurrence: "x"}, DueEnv{})
}

func FuzzDecodeCommandJSON(f *testing.F) {
	for _, seed := range []string{
		`{"op":"register","channel":"push","user_id":"u_81","start":"2026-11-20T09:00","timezone":"America/New_York","recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO,WE","exclude":["2026-12-25"],"payload":{"title":"Take pills"}}`,
		`{"op":"register","delay":420,"payload_base64":"AP8=","headers":{"a":"1","content-type":"x"},"tags":{"a":"b"},"priority":"low","jitter":"5s","misfire":"skip"}`,
		`{"op":"register","fire_at":"2026-11-20T09:00+01:00","callback":{"url":"https://a.example","timeout":5,"retry":["10s",30]},"dst":{"gap":"skip"},"calendars":{"names":["us"],"on":"skip"}}`,
		`{"op":"cancel","if_revision":3}`, `{"op":"snooze","for":"10m"}`, `{"op":"snooze","until":1800000000}`,
		`{"op":"skip","occurrence":"2026-12-25"}`,
		`{"op":"redrive","due_id":"k@x#0","attempt":6,"scheduled_at":1800000000000,"payload":1}`,
		`{"op":"rezone","timezone":"Asia/Tokyo"}`,
		`{"\u006fp":"erase"}`, `{"op":"register","op":"cancel"}`, `{"op":null}`, `{`, `[]`,
		`{"op":"register","payload":[[[[]]]]}`,
	} {
		f.Add([]byte("k"), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		fuzzCommand(t, &Record{Key: key, Value: value, Timestamp: appended})
	})
}

func FuzzDecodeCommandHeaders(f *testing.F) {
	f.Add([]byte("payload"), "wc-delay", []byte("7m"), "wc-channel", []byte("orders"), "x-a", []byte("1"))
	f.Add([]byte(""), "wc-op", []byte("cancel"), "wc-if-revision", []byte("3"), "ce_id", []byte("1"))
	f.Add([]byte("{}"), "wc-fire-at", []byte("2026-11-20T09:00"), "wc-timezone", []byte("Europe/Berlin"),
		"content-type", []byte("x"))
	f.Add([]byte("x"), "wc-recurrence", []byte("every:15m"), "wc-until", []byte("1800000000"), "wc-count", []byte("3"))
	f.Add([]byte("x"), "wc-callback-url", []byte("https://u@a.example"), "wc-delay", []byte("0"), "WC-Delay",
		[]byte("0"))
	f.Fuzz(func(t *testing.T, value []byte, k1 string, v1 []byte, k2 string, v2 []byte, k3 string, v3 []byte) {
		fuzzCommand(t, &Record{
			Key: []byte("k"), Value: value, Timestamp: appended,
			Headers: []trigger.Header{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}},
		})
	})
}
