package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/sinks"
)

var errValue = errors.New("value does not parse")

// lenient accepts repeated names, because a payload is the user's JSON and may have them.
var lenient = jsontext.AllowDuplicateNames(true)

func appendEvent(b []byte, r *sinks.EventRecord) ([]byte, error) {
	b = binary.AppendVarint(b, int64(r.Partition))
	b = binary.AppendVarint(b, r.Offset)
	if r.Raw != nil {
		return append(b, r.Raw...), nil
	}
	text, err := json.Marshal(&r.Event, lenient)
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return append(b, text...), nil
}

func decodeEvent(b []byte) (r sinks.EventRecord, err error) {
	partition, n := binary.Varint(b)
	if n <= 0 {
		return r, errValue
	}
	offset, m := binary.Varint(b[n:])
	if m <= 0 {
		return r, errValue
	}
	r.Partition, r.Offset = int32(partition), offset
	if err := json.Unmarshal(b[n+m:], &r.Event, lenient); err != nil {
		return r, fmt.Errorf("decode event: %w", err)
	}
	return r, nil
}

// decodeMinute decodes an entry of the listing. ok is false if it has expired or is in another
// shard.
func decodeMinute(k, v []byte, now time.Time, shards []int) (e sinks.MinuteEntry, ok bool, err error) {
	key, err := parseMinuteKey(k)
	if err != nil {
		return e, false, err
	}
	if shards != nil && !slices.Contains(shards, sinks.ShardOf(key.Trigger)) {
		return e, false, nil
	}
	var row sinks.MinuteRow
	if err := decodeRow(v, &row); err != nil {
		return e, false, fmt.Errorf("decode minute: %w", err)
	}
	e, ok = row.At(now, key)
	return e, ok, nil
}

func encodeProgress(p sinks.Progress) []byte {
	return binary.AppendVarint(binary.AppendVarint(nil, p.Next), p.EventUS)
}

func decodeProgress(b []byte) (p sinks.Progress, err error) {
	next, n := binary.Varint(b)
	if n <= 0 {
		return p, errValue
	}
	us, m := binary.Varint(b[n:])
	if m <= 0 || n+m != len(b) {
		return p, errValue
	}
	return sinks.Progress{Next: next, EventUS: us}, nil
}
