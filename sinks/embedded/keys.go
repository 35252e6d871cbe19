package embedded

import (
	"encoding/binary"
	"errors"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// The first byte of a key is its table.
const (
	tableEvents   = 'e'
	tableByAge    = 'x'
	tableState    = 's'
	tableMinute   = 'm'
	tableProgress = 'p'

	tableLetters        = 'd' // tenant, failed at, partition, offset
	tableByLetter       = 'b' // tenant, trigger, failed at, partition, offset: where a trigger's letters are
	tableEnds           = 'z' // tenant, trigger, ce_id, event_us, status, attempt
	tableLetterProgress = 'q'

	tableByUser          = 'u' // tenant, user, created at (newest first), notification id
	tableNotifications   = 'n' // tenant, notification id
	tableContent         = 'c' // tenant, notification id
	tableContentProgress = 'r' // topic, partition
	keyFormat            = "v"
)

var errKey = errors.New("key does not parse")

func appendText(b []byte, s string) []byte {
	return append(appendBeginning(b, s), 0, 1)
}

// appendBeginning appends the common prefix of all encoded texts that begin with s.
func appendBeginning(b []byte, s string) []byte {
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return b
}

func takeText(b []byte) (s string, rest []byte, err error) {
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 1:
			return string(out), b[i+1:], nil
		case 0xff:
			out = append(out, 0)
		default:
			return "", nil, errKey
		}
	}
	return "", nil, errKey
}

func appendInt(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(v)^1<<63)
}

func takeInt(b []byte) (v int64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, errKey
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), b[8:], nil
}

// triggerPrefix returns the prefix of all keys of one trigger in a table.
func triggerPrefix(table byte, tenant, key string) []byte {
	b := append(make([]byte, 0, len(tenant)+len(key)+24), table)
	return appendText(appendText(b, tenant), key)
}

func eventKey(tenant, key string, c sinks.EventCursor) []byte {
	return appendInt(appendInt(triggerPrefix(tableEvents, tenant, key), c.EventUS), c.Seq)
}

func parseEventKey(k []byte) (tenant, key string, c sinks.EventCursor, err error) {
	if tenant, k, err = takeText(k[1:]); err != nil {
		return
	}
	if key, k, err = takeText(k); err != nil {
		return
	}
	c, err = takeCursor(k)
	return
}

func takeCursor(k []byte) (c sinks.EventCursor, err error) {
	if c.EventUS, k, err = takeInt(k); err != nil {
		return c, err
	}
	if c.Seq, k, err = takeInt(k); err == nil && len(k) != 0 {
		err = errKey
	}
	return c, err
}

func ageKey(tenant, key string, c sinks.EventCursor) []byte {
	b := append(make([]byte, 0, len(tenant)+len(key)+24), tableByAge)
	b = appendText(appendText(appendInt(b, c.EventUS), tenant), key)
	return appendInt(b, c.Seq)
}

func parseAgeKey(k []byte) (tenant, key string, c sinks.EventCursor, err error) {
	if c.EventUS, k, err = takeInt(k[1:]); err != nil {
		return
	}
	if tenant, k, err = takeText(k); err != nil {
		return
	}
	if key, k, err = takeText(k); err != nil {
		return
	}
	if c.Seq, k, err = takeInt(k); err == nil && len(k) != 0 {
		err = errKey
	}
	return
}

func parseStateKey(k []byte) (tenant, key string, err error) {
	if tenant, k, err = takeText(k[1:]); err != nil {
		return
	}
	if key, k, err = takeText(k); err == nil && len(k) != 0 {
		err = errKey
	}
	return
}

// minutePrefix returns the lower bound of the keys of all entries due at or after an instant.
func minutePrefix(due trigger.Instant) []byte {
	return appendInt([]byte{tableMinute}, int64(due))
}

func minuteKey(k sinks.MinuteKey) []byte {
	return appendText(appendText(minutePrefix(k.Due), k.Tenant), k.Trigger)
}

func parseMinuteKey(b []byte) (k sinks.MinuteKey, err error) {
	var due int64
	if due, b, err = takeInt(b[1:]); err != nil {
		return k, err
	}
	k.Due = trigger.Instant(due)
	if k.Tenant, b, err = takeText(b); err != nil {
		return k, err
	}
	if k.Trigger, b, err = takeText(b); err == nil && len(b) != 0 {
		err = errKey
	}
	return k, err
}

func progressKey(table byte, partition int32) []byte {
	return appendInt([]byte{table}, int64(partition))
}

// after returns the first key after all keys that begin with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
