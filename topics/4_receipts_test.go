package topics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

func receipt(value string) *Record {
	return &Record{Topic: "waterclock.receipts", Key: []byte("k"), Value: []byte(value), Timestamp: appended}
}

func TestReceipt(t *testing.T) {
	got, err := DecodeReceipt(receipt(`{"due_id":"k@2026-11-20T14:00:00.000Z#2","channel":"sms","outcome":"retry","attempt":3,"code":"busy",
		"detail":"try later","retry_after":"30s","at":"2026-11-20T14:00:05Z","carrier":"x"}`))
	want := Receipt{
		Key: "k", Occurrence: "2026-11-20T14:00:00.000Z", Step: 2, Channel: "sms", Outcome: OutcomeRetry,
		Attempt: 3, Postponed: -1,
		Code: "busy", Detail: "try later", RetryAfter: 30 * time.Second, At: 1_795_183_205_000, Appended: appended,
	}
	if err != nil || *got != want {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}
	if in := got.Input(); in.At != appended || in.Occurrence != want.Occurrence || in.Step != 2 ||
		in.Outcome != trigger.ReceiptRetry {
		t.Errorf("input %+v", in)
	}
}

func TestReceiptSurvivesTheWire(t *testing.T) {
	for _, want := range []Receipt{
		{Key: "a@b#c", Occurrence: "x", Outcome: OutcomeDelivered, Postponed: -1},
		{
			Key: "k", Occurrence: "x", Step: 3, Channel: "sms", Outcome: OutcomePostponed, Attempt: 2, Code: "c\"",
			Detail: "d\n", RetryAfter: 1500 * time.Millisecond, At: appended + 7,
		},
	} {
		rec := &Record{Key: []byte(want.Key), Value: AppendReceipt(nil, &want)}
		if got, err := DecodeReceipt(rec); err != nil || *got != want {
			t.Errorf("%s came back as %+v, %v", rec.Value, got, err)
		}
	}
}

func TestReceiptsOfEveryOutcome(t *testing.T) {
	for _, outcome := range []string{"delivered", "accepted", "failed", "retry", "postponed", "suppressed"} {
		got, err := DecodeReceipt(receipt(`{"due_id":"k@x#0","outcome":"` + outcome + `"}`))
		if err != nil || string(got.Outcome) != outcome || got.Input().Outcome.String() != outcome {
			t.Errorf("%s: got %+v, %v", outcome, got, err)
		}
	}
}

func TestGarbledReceipts(t *testing.T) {
	for _, c := range []struct {
		name, value string
		code        trigger.Code
		field       string
	}{
		{"empty", "", trigger.CodeInvalid, ""},
		{"text", "ok", trigger.CodeInvalid, ""},
		{"a list", "[]", trigger.CodeInvalid, ""},
		{"null", "null", trigger.CodeInvalid, "due_id"},
		{"trailing", `{"due_id":"k@x#0","outcome":"failed"} x`, trigger.CodeInvalid, ""},
		{"no due_id", `{"outcome":"failed"}`, trigger.CodeInvalid, "due_id"},
		{"garbled due_id", `{"due_id":"k","outcome":"failed"}`, trigger.CodeInvalid, "due_id"},
		{"another trigger", `{"due_id":"j@x#0","outcome":"failed"}`, trigger.CodeInvalid, "due_id"},
		{"no outcome", `{"due_id":"k@x#0"}`, trigger.CodeInvalid, "outcome"},
		{"unknown outcome", `{"due_id":"k@x#0","outcome":"sent"}`, trigger.CodeInvalid, "outcome"},
		{"outcome in upper case", `{"due_id":"k@x#0","outcome":"FAILED"}`, trigger.CodeInvalid, "outcome"},
		{"negative attempt", `{"due_id":"k@x#0","outcome":"failed","attempt":-1}`, trigger.CodeInvalid, "attempt"},
		{"attempt in words", `{"due_id":"k@x#0","outcome":"failed","attempt":"one"}`, trigger.CodeInvalid, "attempt"},
		{"channel", `{"due_id":"k@x#0","outcome":"failed","channel":"S M S"}`, trigger.CodeInvalid, "channel"},
		{"at", `{"due_id":"k@x#0","outcome":"failed","at":"noon"}`, trigger.CodeInvalid, "at"},
		{
			"retry_after", `{"due_id":"k@x#0","outcome":"retry","retry_after":"soon"}`, trigger.CodeInvalid,
			"retry_after",
		},
		{
			"retry_after of an object", `{"due_id":"k@x#0","outcome":"retry","retry_after":{}}`, trigger.CodeInvalid,
			"retry_after",
		},
		{
			"retry_after of 31 days", `{"due_id":"k@x#0","outcome":"retry","retry_after":"31d"}`, trigger.CodeInvalid,
			"retry_after",
		},
		{"too large", `{"detail":"` + strings.Repeat("x", 64<<10) + `"}`, trigger.CodeTooLarge, ""},
		{"deep", strings.Repeat("[", 60<<10), trigger.CodeInvalid, ""},
	} {
		got, err := DecodeReceipt(receipt(c.value))
		e, ok := errors.AsType[*trigger.Error](err)
		if !ok || got != nil || e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: got %+v, %v; want %s (%s)", c.name, got, err, c.code, c.field)
		}
	}
	if _, err := DecodeReceipt(&Record{Value: []byte(`{}`)}); err == nil {
		t.Error("a receipt without a key passed")
	}
	if _, err := DecodeReceipt(receipt(`{"ce_id":"k@x#0","outcome":"failed"}`)); err == nil ||
		!strings.Contains(err.Error(), "due_id is missing") {
		t.Errorf("of a receipt without due_id it says %v", err)
	}
}

func TestReceiptTextIsCutNotRefused(t *testing.T) {
	got, err := DecodeReceipt(receipt(`{"due_id":"k@x#0","outcome":"failed","detail":"` + strings.Repeat("ü", 2000) +
		`","retry_after":null}`))
	if err != nil || len(got.Detail) != maxReceiptText || !strings.HasSuffix(got.Detail, "ü") {
		t.Errorf("got %v, %d bytes", err, len(got.Detail))
	}
}

func FuzzDecodeReceipt(f *testing.F) {
	f.Add([]byte("k"),
		[]byte(`{"due_id":"k@2026-11-20T14:00:00.000Z#2","channel":"sms","outcome":"retry","attempt":3,"code":"busy","detail":"d","retry_after":30,"at":"2026-11-20T14:00:05Z"}`))
	f.Add([]byte("a@b"), []byte(`{"due_id":"a@b@x#0","outcome":"delivered"}`))
	f.Add([]byte("k"), []byte(`{"due_id":null}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		got, err := DecodeReceipt(&Record{Key: key, Value: value})
		if err != nil {
			if _, ok := errors.AsType[*trigger.Error](err); !ok || got != nil {
				t.Fatalf("got %+v, %v", got, err)
			}
			return
		}
		got.RetryAfter = got.RetryAfter.Truncate(time.Millisecond) // as it is written
		back, err := DecodeReceipt(&Record{Key: key, Value: AppendReceipt(nil, got)})
		if err != nil || *back != *got {
			t.Fatalf("%v\ncame back as %+v\nwas %+v", err, back, got)
		}
	})
}
