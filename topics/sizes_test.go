package topics

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// keysOfAllKinds are the record keys that stopped a partition, and their
// neighbours on either side of every bound.
func keysOfAllKinds() map[string][]byte {
	keys := map[string][]byte{}
	for kind, unit := range map[string]string{
		"letters": "k", "control characters": "\x01", "quotes": `"`,
		"not UTF-8": "\xff", "runes": "ü", "line separators": "\u2028",
	} {
		for _, n := range []int{
			0, 1, 255, 256, 300, 64<<10 - 1, 64 << 10, 64<<10 + 1, 80_000, 256_000, 995_904,
			996_000, 1_000_000, 1_100_000, 5_000_000,
		} {
			keys[kind+" "+strconv.Itoa(n)] = []byte(strings.Repeat(unit, n/len(unit)))
		}
	}
	return keys
}

// TestRejectedRecordOfAnyKey: a key of any size and kind is refused in a
// record that fits, and in an event that fits and is JSON.
func TestRejectedRecordOfAnyKey(t *testing.T) {
	for name, key := range keysOfAllKinds() {
		for _, most := range []int{MinRecordBytes, 100_000, MaxRecordBytes} {
			checkRefusal(t, name, &Record{Topic: "waterclock.commands", Key: key, Value: []byte(`{"op":"cancel"}`)},
				most)
		}
	}
}

func checkRefusal(t *testing.T, name string, rec *Record, most int) {
	t.Helper()
	refusal := &trigger.Error{
		Code: trigger.CodeInvalidKey, Msg: strings.Repeat("\x02", 5000),
		Field: strings.Repeat("f", 5000),
	}
	key, value, hs := RejectedWithin(rec, refusal, most)
	if size := RecordBytes(key, value, hs); size > most {
		t.Errorf("%s: the rejected record takes %d bytes of %d", name, size, most)
	}
	if !bytes.HasPrefix(rec.Key, key) || !bytes.HasPrefix(rec.Value, value) {
		t.Errorf("%s: key or value is not the beginning of what it was", name)
	}
	if pairs := headerPairs(hs); (len(key) < len(rec.Key)) && !strings.Contains(pairs, "wc-error-truncated=") {
		t.Errorf("%s: does not say that it was cut", name)
	} else if sum := sha256.Sum256(rec.Key); len(rec.Key) > trigger.MaxKeyBytes &&
		(!strings.Contains(pairs, "wc-error-key-length="+strconv.Itoa(len(rec.Key))+"\n") ||
			!strings.Contains(pairs, "wc-error-key-hash=sha256:"+hex.EncodeToString(sum[:])+"\n")) {
		t.Errorf("%s: length and hash of the key are missing", name)
	}
	about, reported := RefusedKey(rec.Key, refusal)
	fact := &trigger.Fact{Type: trigger.Rejected, Reason: string(reported.Code), Detail: reported.Msg}
	event := AppendEventWithin(nil, about, fact, EventEnv{EventUS: 1, At: 1, Source: Source(rec.Topic, 1, 2)}, most)
	if size := RecordBytes([]byte(about), event, nil); size > most {
		t.Errorf("%s: the event takes %d bytes of %d", name, size, most)
	}
	e, err := DecodeEvent(event)
	if err != nil || !utf8.Valid(event) || e.Reason != "invalid_key" {
		t.Errorf("%s: the event is %.200s, %v", name, event, err)
	}
	if len(rec.Key) > trigger.MaxKeyBytes && !strings.Contains(e.Detail, "sha256 ") {
		t.Errorf("%s: the event's detail %.200q says nothing of the whole key", name, e.Detail)
	}
	if len(rec.Key) <= trigger.MaxKeyBytes && string(about) != string(rec.Key) {
		t.Errorf("%s: a key that fits was changed", name)
	}
}

// FuzzRefusal: whatever a record is made of, its refusal fits. Sizes are drawn
// apart from the bytes, so that large records cost the fuzzer nothing.
func FuzzRefusal(f *testing.F) {
	f.Add("k", uint32(1), "v", uint32(1), "h", uint32(1), "w", uint32(1), uint16(1), uint32(MaxRecordBytes))
	f.Add("\x01", uint32(1_000_000), "{", uint32(1_000_000), "wc-", uint32(1), "x", uint32(900_000), uint16(3),
		uint32(MaxRecordBytes))
	f.Add("\xff", uint32(1_100_000), "", uint32(0), "wc-error-code", uint32(1), "\x00", uint32(0), uint16(60_000),
		uint32(MinRecordBytes))
	f.Fuzz(func(t *testing.T, key string, keyTimes uint32, value string, valueTimes uint32, name string,
		nameTimes uint32, text string, textTimes uint32, headers uint16, most uint32,
	) {
		rec := &Record{Topic: "waterclock.commands", Key: many(key, keyTimes), Value: many(value, valueTimes)}
		h := trigger.Header{Key: string(many(name, nameTimes%100_000)), Value: many(text, textTimes)}
		for range headers {
			rec.Headers = append(rec.Headers, h)
		}
		checkRefusal(t, "fuzz", rec, MinRecordBytes+int(most)%(MaxRecordBytes-MinRecordBytes+1))
	})
}

// many repeats s to at most 2 MB.
func many(s string, times uint32) []byte {
	return []byte(strings.Repeat(s, min(int(times), 2_000_000/max(1, len(s)))))
}

// TestEventWithin: what does not fit leaves an event in a known order, and the
// event says what has gone.
func TestEventWithin(t *testing.T) {
	full, env := goldenFact()
	whole := AppendEvent(nil, "acme/pills", full, env)
	if same := AppendEventWithin(nil, "acme/pills", full, env, MaxRecordBytes); !bytes.Equal(same, whole) {
		t.Errorf("what fits was changed:\n%s\n%s", same, whole)
	}
	big := *full
	big.Spec = &trigger.Spec{Payload: bytes.Repeat([]byte{0xff}, MaxPayload)}
	big.Detail, big.Actor, big.Corr = strings.Repeat("\x01", 1024), strings.Repeat("a", 255), strings.Repeat("c", 255)
	big.Tags = nil
	for i := range maxTags {
		big.Tags = append(big.Tags, trigger.Tag{Key: strconv.Itoa(i), Value: strings.Repeat(`"`, maxTagValue)})
	}
	for _, row := range []struct {
		most int
		want []string
	}{
		{MaxRecordBytes, nil},
		{100_000, []string{"payload"}},
		{24_000, []string{"payload", "detail"}},
		{MinRecordBytes, []string{"payload", "detail", "tags"}},
	} {
		b := AppendEventWithin([]byte("x"), "acme/pills", &big, env, row.most)
		e, err := DecodeEvent(b[1:])
		if err != nil || strings.Join(e.Truncated, " ") != strings.Join(row.want, " ") {
			t.Errorf("within %d: truncated %v, %v, want %v", row.most, e.Truncated, err, row.want)
		}
		if size := RecordBytes([]byte("acme/pills"), b[1:], nil); size > row.most {
			t.Errorf("within %d: %d bytes", row.most, size)
		}
	}
}

// TestDeadLetterWithin: a dead letter that does not fit keeps all that names
// the occurrence, and says what it was.
func TestDeadLetterWithin(t *testing.T) {
	d := &trigger.DeadLetter{Fire: *fullFire(), Code: "due_topic", Detail: strings.Repeat("d", 5000)}
	spec := *d.Fire.Spec
	spec.Payload = bytes.Repeat([]byte("p"), MaxPayload)
	for i := range 64 {
		spec.Headers = append(spec.Headers, trigger.Header{
			Key:   "h" + strconv.Itoa(i),
			Value: bytes.Repeat([]byte("v"), 1000),
		})
	}
	d.Fire.Spec = &spec
	for _, most := range []int{MinRecordBytes, 50_000, 100_000, MaxRecordBytes} {
		key, value, hs := DeadLetterWithin(d, dueEnv, most)
		if size := RecordBytes(key, value, hs); size > most {
			t.Errorf("within %d: %d bytes", most, size)
		}
		cut := strings.Contains(headerPairs(hs), "wc-error-truncated=")
		if cut != (most < MaxRecordBytes) {
			t.Errorf("within %d: cut is %v", most, cut)
		}
		got, err := DecodeDeadLetter(&Record{Key: key, Value: value, Headers: hs})
		if err != nil || got.Fire.ID() != d.Fire.ID() || got.Code != d.Code ||
			DeadLetterCut(&Record{Headers: hs}) != cut {
			t.Errorf("within %d: read back as %+v, %v", most, got, err)
		}
	}
}
