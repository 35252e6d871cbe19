package topics

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/trigger"
)

// Vectors of Kafka's own test (UtilsTest.testMurmur2), signed as Java prints
// them.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

// kgo's default partitioner is the Java client's; it is what our own clients
// produce with.
func TestPartitionIsTheClients(t *testing.T) {
	byClient := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for n := range 2000 {
		key := bytes.Repeat([]byte{byte(n), byte(n >> 3), 0xff}, n%9)
		key = append(key, byte(n>>8), byte(n))
		for _, partitions := range []int32{1, 4, 16, 33} {
			if got, want := Partition(key, partitions), int32(byClient.Partition(&kgo.Record{Key: key},
				int(partitions))); got != want {
				t.Fatalf("%x of %d: got %d, want %d", key, partitions, got, want)
			}
		}
	}
}

// Growing P by a factor splits partitions and never mixes them
// (docs/operations/kafka.md).
func TestPartitionSplits(t *testing.T) {
	for n := range 1000 {
		key := []byte{byte(n), byte(n >> 8), 7}
		if Partition(key, 48)%16 != Partition(key, 16) {
			t.Fatalf("%x: %d of 48, %d of 16", key, Partition(key, 48), Partition(key, 16))
		}
	}
}

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
