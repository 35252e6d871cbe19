package topics

import (
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// Of a command that cannot be decoded the op is told all the same, if it can
// be read.
func TestOpOfARefusedCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  Record
		want trigger.Op
	}{
		{"unknown field", Record{Key: []byte("k"), Value: []byte(`{"op":"snooze","fro":"5m"}`)}, trigger.OpSnooze},
		{
			"op comes last",
			Record{Key: []byte("k"), Value: []byte(`{"chanel":"x","op":"register"}`)},
			trigger.OpRegister,
		},
		{"two times", Record{
			Key:   []byte("k"),
			Value: []byte(`{"op":"register","delay":"1s","fire_at":"2030-01-01T00:00:00Z"}`),
		}, trigger.OpRegister},
		{"bad key", Record{Key: []byte("/k"), Value: []byte(`{"op":"pause"}`)}, trigger.OpPause},
		{
			"headers",
			Record{Key: []byte("k"), Headers: headers("wc-delay=soon"), Value: []byte("x")},
			trigger.OpRegister,
		},
		{"headers with an op", Record{
			Key: []byte("k"), Headers: headers("wc-op=skip", "wc-delay=1s"),
			Value: []byte("x"),
		}, trigger.OpSkip},
		{"unknown op", Record{Key: []byte("k"), Value: []byte(`{"op":"regster"}`)}, 0},
		{"no op", Record{Key: []byte("k"), Value: []byte(`{"delay":"1s"}`)}, 0},
		{"garbage", Record{Key: []byte("k"), Value: []byte("garbage")}, 0},
		{"half an object", Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":`)}, 0},
	} {
		if cmd, err := DecodeCommand(&c.rec, Limits{}, nil); err == nil {
			t.Errorf("%s: decoded as %+v", c.name, cmd)
		}
		if got := OpOf(&c.rec, Limits{}); got != c.want {
			t.Errorf("%s: op %v, want %v", c.name, got, c.want)
		}
	}
}

// A record with wc- headers whose value is a JSON command is refused for what its headers lack or
// have too much. The refusal says that there are two commands, and which of both to drop.
func TestRefusedInBothSpellings(t *testing.T) {
	const json = `{"op":"register","delay":"7m","tags":{"op":"x"}}`
	for _, c := range []struct {
		name   string
		rec    *Record
		advice bool
	}{
		{"no time in the headers", command(json, "wc-channel=orders"), true},
		{"unknown header", command(" "+json+"\n", "a=b", "WC-Trace=1"), true},
		{"op at the end", command(`{"a":[{"op":1}],"op":"cancel"}`, "wc-channel=orders"), true},
		{"a payload", command(`{"order":1}`, "wc-channel=orders"), false},
		{"op below the top", command(`{"a":{"op":"cancel"}}`, "wc-channel=orders"), false},
		{"no JSON", command(json+"}", "wc-channel=orders"), false},
		{"an array", command(`["op"]`, "wc-channel=orders"), false},
		{"no header", command(`{"op":"register","shout":1}`), false},
	} {
		_, err := DecodeCommand(c.rec, Limits{}, nil)
		if err == nil || strings.Contains(err.Error(), "drop the wc- headers") != c.advice {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := DecodeCommand(command(json, "wc-delay=7m"), Limits{}, nil); err != nil {
		t.Errorf("a JSON command as a payload: %v", err)
	}
}
