package topics

import (
	"reflect"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

var claim = Forward{TopicID: [16]byte{0xde, 0xad, 15: 0xff}, Partition: 3, Offset: 12345, Append: appended}

func TestForwardSurvivesTheWire(t *testing.T) {
	own := headers("wc-delay=7m", "wcx-origin=9/9", "wcx-foo=bar", "a=1")
	hs := ForwardHeaders(own, claim)
	want := headers("wc-delay=7m", "a=1", "wcx-topic-id=3q0AAAAAAAAAAAAAAAAA_w", "wcx-origin=3/12345",
		"wcx-append=1790000000000")
	if !reflect.DeepEqual(hs, want) {
		t.Errorf("got\n%s", headerPairs(hs))
	}
	got, ok, err := Forwarded(&Record{Headers: hs})
	if err != nil || !ok || got != claim {
		t.Errorf("got %+v, %v, %v", got, ok, err)
	}
	if o := got.Origin(); *o != (trigger.Origin{Partition: 3, Offset: 12345, Append: appended, Forwarded: true}) {
		t.Errorf("origin %+v", o)
	}
}

func TestForwardClaimsThatAreNone(t *testing.T) {
	id, origin, at := "wcx-topic-id=3q0AAAAAAAAAAAAAAAAA_w", "wcx-origin=3/12345", "wcx-append=1790000000000"
	for _, c := range []struct {
		name    string
		headers []string
		err     bool
	}{
		{"none", nil, false},
		{"others of ours", []string{"wcx-foo=1", "wc-delay=7m"}, false},
		{"one missing", []string{id, origin}, true},
		{"one twice", []string{id, origin, at, at}, true},
		{"short id", []string{"wcx-topic-id=3q0", origin, at}, true},
		{"long id", []string{"wcx-topic-id=3q0AAAAAAAAAAAAAAAAA_w3q0AAAAAAAAAAAAAAAAA_w", origin, at}, true},
		{"padded id", []string{"wcx-topic-id=3q0AAAAAAAAAAAAAAAAA_w==", origin, at}, true},
		{"id with bits to spare", []string{"wcx-topic-id=3q0AAAAAAAAAAAAAAAAA_x", origin, at}, true},
		{"id with a line break", []string{"wcx-topic-id=3q0AAAAAAAAAA\nAAAAAAA_w", origin, at}, true},
		{"no slash", []string{id, "wcx-origin=312345", at}, true},
		{"negative partition", []string{id, "wcx-origin=-3/12345", at}, true},
		{"partition over 31 bits", []string{id, "wcx-origin=2147483648/1", at}, true},
		{"empty offset", []string{id, "wcx-origin=3/", at}, true},
		{"leading zero", []string{id, "wcx-origin=3/012345", at}, true},
		{"offset over 63 bits", []string{id, "wcx-origin=3/9223372036854775808", at}, true},
		{"append in words", []string{id, origin, "wcx-append=now"}, true},
		{"append with a sign", []string{id, origin, "wcx-append=+1"}, true},
	} {
		got, ok, err := Forwarded(&Record{Headers: headers(c.headers...)})
		if ok || (err != nil) != c.err || got != (Forward{}) {
			t.Errorf("%s: got %+v, %v, %v", c.name, got, ok, err)
		}
	}
}

func FuzzForwardHeaders(f *testing.F) {
	f.Add("wcx-topic-id", []byte("3q0AAAAAAAAAAAAAAAAA_w"), "wcx-origin", []byte("3/12345"), "wcx-append",
		[]byte("1790000000000"))
	f.Add("wcx-topic-id", []byte("3q0AAAAAAAAAAAAAAAAA_x"), "wcx-origin", []byte("03/1"), "wcx-origin", []byte("3/1"))
	f.Fuzz(func(t *testing.T, k1 string, v1 []byte, k2 string, v2 []byte, k3 string, v3 []byte) {
		rec := &Record{Headers: []trigger.Header{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}}}
		got, ok, err := Forwarded(rec)
		if !ok || err != nil {
			if got != (Forward{}) {
				t.Fatalf("no claim, and yet %+v", got)
			}
			return
		}
		// A claim has one spelling: written twice it is the same headers.
		if twice := ForwardHeaders(rec.Headers, got); len(twice) != 3 || !sameHeaders(twice, rec.Headers) {
			t.Fatalf("got %+v of %q, written %q", got, rec.Headers, twice)
		}
	})
}

func sameHeaders(a, b []trigger.Header) bool {
	values := make(map[string]string)
	for _, h := range a {
		values[h.Key] = string(h.Value)
	}
	for _, h := range b {
		if values[h.Key] != string(h.Value) {
			return false
		}
	}
	return true
}
