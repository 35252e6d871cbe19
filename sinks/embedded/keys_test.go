package embedded

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Keys sort like their parts, and decode to them.
func FuzzKeys(f *testing.F) {
	f.Add("t", "k", int64(1), int64(2), "t", "k\x00", int64(-1), int64(1<<62))
	f.Add("", "", int64(0), int64(0), "\x00", "\xff", int64(-1<<63), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, t1, k1 string, us1, seq1 int64, t2, k2 string, us2, seq2 int64) {
		c1, c2 := sinks.EventCursor{EventUS: us1, Seq: seq1}, sinks.EventCursor{EventUS: us2, Seq: seq2}
		want := cmp.Or(cmp.Compare(t1, t2), cmp.Compare(k1, k2), cmp.Compare(us1, us2), cmp.Compare(seq1, seq2))
		if got := bytes.Compare(eventKey(t1, k1, c1), eventKey(t2, k2, c2)); got != want {
			t.Fatalf("event keys compare %d, want %d", got, want)
		}
		if tenant, key, c, err := parseEventKey(eventKey(t1, k1, c1)); err != nil || tenant != t1 || key != k1 ||
			c != c1 {
			t.Fatalf("event key came apart into %q %q %+v, %v", tenant, key, c, err)
		}
		if tenant, key, c, err := parseAgeKey(ageKey(t1, k1, c1)); err != nil || tenant != t1 || key != k1 || c != c1 {
			t.Fatalf("age key came apart into %q %q %+v, %v", tenant, key, c, err)
		}
		if got := bytes.Compare(ageKey("", "", c1), ageKey("", "", c2)); got != cmp.Or(cmp.Compare(us1, us2),
			cmp.Compare(seq1, seq2)) {
			t.Fatalf("age keys compare %d", got)
		}
		m := sinks.MinuteKey{Due: trigger.Instant(us1), Tenant: t1, Trigger: k1}
		if got, err := parseMinuteKey(minuteKey(m)); err != nil || got != m {
			t.Fatalf("minute key came apart into %+v, %v", got, err)
		}
		if tenant, key, err := parseStateKey(triggerPrefix(tableState, t1, k1)); err != nil || tenant != t1 ||
			key != k1 {
			t.Fatalf("state key came apart into %q %q, %v", tenant, key, err)
		}
		if p := triggerPrefix(tableEvents, t1, k1); (t1 != t2 || k1 != k2) && bytes.HasPrefix(eventKey(t2, k2, c2), p) {
			t.Fatalf("%q/%q is listed among %q/%q", t2, k2, t1, k1)
		}
	})
}

// Invalid keys and values are an error, never a panic.
func FuzzDecode(f *testing.F) {
	f.Add(eventKey("t", "k", sinks.EventCursor{EventUS: 1, Seq: 2}))
	f.Add(minuteKey(sinks.MinuteKey{Due: 1, Tenant: "t", Trigger: "k"}))
	f.Add(encodeProgress(sinks.Progress{Next: 7, EventUS: 8}))
	if e, err := appendEvent(nil, &sinks.EventRecord{Partition: 3, Offset: 9}); err == nil {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 0 {
			_, _, _, _ = parseEventKey(b)
			_, _, _, _ = parseAgeKey(b)
			_, _, _ = parseStateKey(b)
			_, _ = parseMinuteKey(b)
		}
		if r, err := decodeEvent(b); err == nil {
			if _, err := appendEvent(nil, &r); err != nil {
				t.Fatalf("%+v was decoded and does not encode: %v", r, err)
			}
		}
		if p, err := decodeProgress(b); err == nil {
			if second, err := decodeProgress(encodeProgress(p)); err != nil || second != p {
				t.Fatalf("%+v comes back as %+v, %v", p, second, err)
			}
		}
	})
}
