package topics

import (
	"reflect"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func tombstone(hs ...string) *Record {
	rec := command("", hs...)
	rec.Value = nil
	return rec
}

func TestTombstoneIsACancel(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
	}{
		{"null", tombstone()},
		{"null beside other headers", tombstone("traceparent=x", "ce_id=1", "wcx-topic-id=z")},
		{"null beside wc-op=cancel", tombstone("wc-op=cancel")},
		{"empty value and wc-op=cancel", command("", "wc-op=cancel")},
	} {
		got, err := DecodeCommand(c.rec, Limits{}, nil)
		if err != nil || got.Op != trigger.OpCancel || got.Key != "k" {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

// Record headers travel to the due event in either spelling, but for ours and
// CloudEvents'; in the JSON spelling the field wins over the record's header.
func TestUserHeadersTravel(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
		want []trigger.Header
	}{
		{"headers", command("", "wc-delay=7m", "a=1", "ce_id=x", "wcx-origin=0/1", "WCX-a=1", "a=2",
			"Content-Type=text/plain"), headers("a=1", "a=2")},
		{"json", command(`{"op":"register","delay":"7m"}`, "a=1", "ce_id=x", "wcx-origin=0/1",
			"content-type=text/plain"), headers("a=1")},
		{"json, both", command(`{"op":"register","delay":"7m","headers":{"a":"1","content-type":"text/plain"}}`, "a=2",
			"b=3", "content-type=text/html"), headers("a=1", "b=3")},
	} {
		got, err := DecodeCommand(c.rec, Limits{}, nil)
		if err != nil || !reflect.DeepEqual(got.Spec.Headers, c.want) || got.Spec.ContentType != "text/plain" {
			t.Errorf("%s: got %+v, %v", c.name, got.Spec, err)
		}
	}
}

// A tab, other scripts and other bytes are no control characters; and a cancel
// counts whatever stands beside it.
func TestHeadersWithoutControlCharacters(t *testing.T) {
	for _, value := range []string{"a\tb", "ünïcode", "\xff\xfe", ""} {
		if _, err := DecodeCommand(command("", "wc-delay=7m", "a="+value), Limits{}, nil); err != nil {
			t.Errorf("%q: %v", value, err)
		}
	}
	if c, err := DecodeCommand(command("", "wc-op=cancel", "a=1\r\n"), Limits{}, nil); err != nil ||
		c.Op != trigger.OpCancel {
		t.Errorf("cancel: %v", err)
	}
}

// Only a record's own header marks a patch, in the JSON spelling as in the
// other, and it does not travel on.
func TestPatchIsMarkedByAHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
		want bool
	}{
		{"JSON", command(`{"op":"register","delay":"1m"}`, HeaderPatch+"="), true},
		{"headers", command("", "wc-delay=1m", HeaderPatch+"="), true},
		{"none", command(`{"op":"register","delay":"1m"}`), false},
		{"a user's field", command(`{"op":"register","delay":"1m","headers":{"` + HeaderPatch + `":""}}`), false},
		{"forwarded", &Record{
			Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1m"}`),
			Headers: ForwardHeaders([]trigger.Header{{Key: HeaderPatch}}, Forward{}),
		}, false},
	} {
		got, err := DecodeCommand(c.rec, Limits{}, nil)
		if err != nil || got.Patch != c.want || len(got.Spec.Headers) > 0 {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

// A header of a gateway gives a register that names no channel the preferred one. It is
// not content: the hash is that of the register without it.
func TestPreferredChannel(t *testing.T) {
	register := func(fields string, headers ...string) *Record {
		return command(`{"op":"register","delay":"1m"`+fields+`}`, headers...)
	}
	const user = `,"user_id":"u"`
	for _, c := range []struct {
		name, fields, prefers, want string
	}{
		{"it names none", user, "push", "push"},
		{"it names one", user + `,"channel":"sms"`, "push", "sms"},
		{"it names the default", user + `,"channel":"default"`, "push", "default"},
		{"it escalates", user + `,"escalation":[{"channel":"email"}]`, "push", "email"},
		{"it has a callback", user + `,"callback":{"url":"https://a.example/"}`, "push", "webhook"},
		{"nobody", "", "push", "default"},
		{"webhook needs a callback", user, "webhook", "default"},
		{"no channel", user, "P!", "default"},
		{"a lane", user, "push.high", "default"},
	} {
		plain, err := DecodeCommand(register(c.fields), Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCommand(register(c.fields, HeaderPreferred+"="+c.prefers), Limits{}, nil)
		if err != nil || got.Spec.Channel != c.want || got.Hash != plain.Hash || len(got.Spec.Headers) > 0 {
			t.Errorf("%s: got %+v, %v; want channel %s", c.name, got, err, c.want)
		}
	}
}
