package topics

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// ReadEvent reads what AppendEvent writes, unless a string needs an escape, and agrees with a JSON library.
func TestReadEvent(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := filler{rand.New(rand.NewPCG(seed, 5))}
	payloads := []string{"", "1", `{"a":[1,2.50,"ü\"}]"]}`, `{"a":1,"a":2}`, "\x00\xff", `"\\"`, "null", "[]"}
	for range 3000 {
		f, env := new(trigger.Fact), EventEnv{}
		r.fill(reflect.ValueOf(f).Elem())
		r.fill(reflect.ValueOf(&env).Elem())
		f.Type, env.Truncated = trigger.Registered, nil
		f.Reason, f.Detail = []string{"", "ü", "plain <&>"}[r.IntN(3)], ""
		f.Tags = []trigger.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: ""}}[:r.IntN(3)]
		f.Spec = &trigger.Spec{Payload: []byte(payloads[r.IntN(len(payloads))])}
		value := AppendEvent(nil, "acme/k", f, env)
		var got, want Event
		if !ReadEvent(value, &got) {
			t.Fatalf("not read: %s", value)
		}
		if err := json.Unmarshal(value, &want, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nread as %+v\nbut is  %+v", value, got, want)
		}
	}
}

// What ReadEvent reads, the library reads as the same, whatever the bytes.
func FuzzReadEvent(f *testing.F) {
	for _, value := range []string{
		`{"event_id":"3-17","type":"t","version":1,"event_us":-17,"tags":{"a":"1","a":""},"payload":{"a":["\\\"]"]}}`,
		`{"seq":0,"step":0,"attempt":12,"lateness_ms":123456789012345678,"due_partition":2147483647,"rule":{}}`,
		`{"payload":1,"payload":null,"rule":true,"step":1,"step":2}`,
		`{}`, `{"tags":{}}`, `{"payload":}`, `{"payload": 1 }`, `{"payload":"` + "\xff" + `"}`, `{"seq":01}`,
		`{"seq":-0}`, `{"due_partition":2147483648}`, `{"seq":1234567890123456789}`, `{"detail":"a\u0041"}`,
		`{"truncated":["payload"]}`, `{"step":null}`, `{"channel":"a"}x`, `{"channel":"a"`, `{"payload":[}]}`,
		`{"payload":{"a":1]}}`, `{"later":1}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var got, want Event
		if !ReadEvent(value, &got) {
			return
		}
		if err := json.Unmarshal(value, &want, jsontext.AllowDuplicateNames(true)); err != nil {
			t.Fatalf("%q is read, and is invalid: %v", value, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\nread as %+v\nbut is  %+v", value, got, want)
		}
	})
}

func BenchmarkReadEvent(b *testing.B) {
	value := AppendEvent(nil, "acme/order-17", &trigger.Fact{
		Type: trigger.FactType("trigger.fired"), Seq: 3, Revision: 1, Channel: "orders",
		Scheduled: appended, Occurrence: "1790000000000",
		HasStep: true, State: trigger.Fired, Previous: trigger.Pending, HasLate: true, Lateness: 5, HasDue: true,
		DueTopic: "waterclock.due.orders",
		Spec:     &trigger.Spec{Payload: []byte(`{"order":17,"items":["a","b"]}`)},
	}, EventEnv{At: appended, EventUS: 1, WithPayload: true})
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if e := (Event{}); !ReadEvent(value, &e) {
				b.Fatal("not read")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if e := (Event{}); json.Unmarshal(value, &e, jsontext.AllowDuplicateNames(true)) != nil {
				b.Fatal("not read")
			}
		}
	})
}

func isMarked(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf }

// TestPlainBytes looks for each byte at each position, also behind and in front of others.
func TestPlainBytes(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, behind := range []byte{'a', '"', '\\', 0, 0xff, '!', '#'} {
				b := []byte(strings.Repeat("~", 20))
				b[at] = byte(c)
				for i := at + 1; i < len(b); i++ {
					b[i] = behind
				}
				want := slices.IndexFunc(b, isMarked)
				if want < 0 {
					want = len(b)
				}
				if got := plainBytes(b); got != want {
					t.Fatalf("%q: %d, want %d", b, got, want)
				}
			}
		}
	}
}
