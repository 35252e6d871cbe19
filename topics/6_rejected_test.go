package topics

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

func TestRejectedRecord(t *testing.T) {
	rec := command("\x00bytes", "wc-dealy=7m", "a=1", "wcx-origin=1/2", "wc-error-code=old", "wc-source=old")
	key, value, hs := RejectedRecord(rec, &trigger.Error{
		Code: trigger.CodeUnknownField, Field: "dealy",
		Msg: "did you mean delay?",
	})
	want := "wc-dealy=7m\na=1\nwc-error-code=unknown_field\nwc-error-detail=did you mean " +
		"delay?\nwc-error-field=dealy\nwc-source=waterclock.commands/3/81\n"
	if got := headerPairs(hs); got != want {
		t.Errorf("headers\n%s\nwant\n%s", got, want)
	}
	if string(key) != "k" || !bytes.Equal(value, rec.Value) {
		t.Errorf("key %q, value %q", key, value)
	}
}

func TestRejectedRecordOfATombstone(t *testing.T) {
	_, value, hs := RejectedRecord(tombstone("wc-delay=7m"),
		&trigger.Error{Code: trigger.CodeAmbiguousTombstone, Msg: strings.Repeat("ü", 1000)})
	if value != nil {
		t.Errorf("value %q: a null must stay null", value)
	}
	if got := headerPairs(hs); strings.Contains(got, "wc-error-field") || len(got) > 1200 {
		t.Errorf("headers %s", got)
	}
}

// What cannot be written would stop the partition: whatever came in, what goes
// out fits.
func TestRejectedRecordFits(t *testing.T) {
	big := command(strings.Repeat("x", 5_000_000), "a=1")
	many := command("kept")
	for range 100_000 {
		many.Headers = append(many.Headers, header("wc-unknown", "0123456789"))
	}
	huge := command("kept", "a="+strings.Repeat("x", 2_000_000))
	for name, rec := range map[string]*Record{"a big value": big, "many headers": many, "a huge header": huge} {
		key, value, hs := RejectedRecord(rec, &trigger.Error{
			Code: trigger.CodeTooLarge, Msg: strings.Repeat("m", 5000),
			Field: strings.Repeat("f", 5000),
		})
		size := len(key) + len(value)
		for _, h := range hs {
			size += len(h.Key) + len(h.Value) + headerOverhead
		}
		if size > MaxRecordBytes || !bytes.HasPrefix(rec.Value, value) {
			t.Errorf("%s: %d bytes", name, size)
		}
		if !strings.Contains(headerPairs(hs), "wc-error-truncated=") {
			t.Errorf("%s: does not say that it was cut", name)
		}
	}
	if _, value, hs := RejectedRecord(command(strings.Repeat("x", 900_000)), &trigger.Error{}); len(value) != 900_000 ||
		strings.Contains(headerPairs(hs), "truncated") {
		t.Error("what fits was cut")
	}
}

func TestDeadLetterSurvivesTheWire(t *testing.T) {
	for _, priority := range []trigger.Priority{trigger.High, trigger.Normal, trigger.Low} {
		deadLetterSurvives(t, priority)
	}
}

func deadLetterSurvives(t *testing.T, priority trigger.Priority) {
	t.Helper()
	want := &trigger.DeadLetter{Fire: *fullFire(), Code: "http_410", Detail: "gone"}
	want.Fire.Spec.Headers[1].Value = []byte{}
	want.Fire.Spec.Priority, want.Fire.Spec.CorrelationID = priority, "order-7"
	want.Fire.FirstFired = 1_795_183_200_003
	key, value, hs := DeadLetterRecord(want, dueEnv)
	if string(key) != "acme/pills" {
		t.Errorf("key %q", key)
	}
	_, _, due := DueRecord(&want.Fire, dueEnv)
	if !reflect.DeepEqual(hs[:len(due)], due) {
		t.Error("a dead letter is not the due event and more")
	}
	got, err := DecodeDeadLetter(&Record{Key: key, Value: value, Headers: hs})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v %+v\nwant %+v %+v", err, got, got.Fire.Spec, want, want.Fire.Spec)
	}
}

// A redrive carries all that a due event is made of.
func TestRedrive(t *testing.T) {
	dead := &trigger.DeadLetter{Fire: *fullFire(), Code: "http_410"}
	dead.Fire.Spec.Priority, dead.Fire.Spec.TraceParent = trigger.High, wholeTrace
	dead.Fire.Spec.Callback, dead.Fire.FirstFired = retried(), 1_795_183_200_003
	value, err := RedriveCommand(dead, "", "")
	if err != nil {
		t.Fatal(err)
	}
	rec := &Record{Key: []byte(dead.Fire.Key), Value: value, Timestamp: appended}
	c, err := DecodeCommand(rec, Limits{}, nil)
	if err != nil || c.Op != trigger.OpRedrive {
		t.Fatalf("got %+v, %v", c, err)
	}
	got := c.Dead
	want := *fullFire()
	want.Fired, want.FirstFired, want.Spec.Expires = 0, 1_795_183_200_003, time.Hour
	want.Spec.Channel, want.Spec.Priority, want.Spec.TraceParent = "webhook", trigger.High, wholeTrace
	want.Spec.Headers[1].Value, want.Spec.Callback = []byte{}, retried()
	if !reflect.DeepEqual(got, &want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", got, got.Spec, want, want.Spec)
	}
	if got.ID() != dead.Fire.ID() {
		t.Errorf("ce_id %s became %s", dead.Fire.ID(), got.ID())
	}
	dead.Fire.Key = "default/k"
	if _, err := RedriveCommand(dead, "", ""); err == nil {
		t.Error("a bad key passed")
	}
}

// retried is a callback with all there is.
func retried() *trigger.Callback {
	return &trigger.Callback{
		URL: "https://a.example/x?y=1", Timeout: 1500 * time.Millisecond,
		Retry: []time.Duration{time.Second, time.Minute}, Raw: true, Recheck: true,
	}
}

func TestTextOrNumber(t *testing.T) {
	for in, want := range map[string]TextOrNumber{
		`"7m"`: "7m", `420`: "420", `1800000000000`: "1800000000000",
		`0.5`: "0.5",
	} {
		var got TextOrNumber
		if err := got.UnmarshalJSON([]byte(in)); err != nil || got != want {
			t.Errorf("%s: got %q, %v", in, got, err)
		}
	}
	for _, in := range []string{`true`, `{}`, `[1]`} {
		var got TextOrNumber
		if err := got.UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s: got %q", in, got)
		}
	}
}
