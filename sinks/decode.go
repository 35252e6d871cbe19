package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// maxKey bounds what becomes part of a row's key: Cassandra's keys end at
// 65,535 bytes. A trigger's key has at most 255, but the key of a rejected
// command is whatever its producer wrote.
const maxKey = 1024

// maxAhead is how far an event may claim to be ahead of its append time. A
// row's write timestamp is event_us, so one garbled event from the year 9999
// could never be overwritten again. One whose event_id says the same was made by
// an engine: event_us never goes back, so it is ahead for as long as a clock of
// the brokers once was.
const maxAhead = 24 * time.Hour

// lastEventUS is the last that any clock may say: in 2286.
const lastEventUS = 10_000_000_000_000_000

// maxValue bounds what one event may put into a row: a quarter of what Cassandra
// takes in one write by default (max_mutation_size, 16 MiB). It would refuse a
// larger one for ever. An engine's event has a payload of 512 KiB at most.
const maxValue = 4 << 20

// DecodeEvent reads the value of one record of the events topic, appended at
// the given time. Unknown fields are passed over: a newer engine may say more.
// A rejected command's event may name an empty trigger, or one too long for a
// row's key; that is cut to its beginning and a digest. Errors mean poison:
// bytes that no retry can turn into an event.
func DecodeEvent(value []byte, appended time.Time) (topics.Event, error) {
	e, err := decodeEvent(value, appended)
	if err == nil {
		shortenKeys(&e)
	}
	return e, err
}

// decodeEvent is DecodeEvent with the keys as they stand.
func decodeEvent(value []byte, appended time.Time) (topics.Event, error) {
	var e topics.Event
	if len(value) > maxValue {
		return e, fmt.Errorf("decode event: %d bytes are more than a row takes (%d)", len(value), maxValue)
	}
	if err := json.Unmarshal(value, &e, lenient); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	if err := checkEvent(&e, appended); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

// lenient: a payload is the user's JSON, in which a name may stand twice.
var lenient = jsontext.AllowDuplicateNames(true)

func checkEvent(e *topics.Event, appended time.Time) error {
	switch {
	case e.Type == "":
		return errors.New("no type")
	case e.EventUS <= 0 || e.EventUS > lastEventUS:
		return fmt.Errorf("event_us %d is not a time", e.EventUS)
	case time.UnixMicro(e.EventUS).After(appended.Add(maxAhead)) &&
		!strings.HasSuffix(e.EventID, fmt.Sprintf("-%d", e.EventUS)):
		return fmt.Errorf("event_us %d is more than a day after its append", e.EventUS)
	case e.Seq < 0:
		return fmt.Errorf("seq %d is negative", e.Seq)
	}
	return errors.Join(checkNumbers(e), checkTimes(e))
}

// checkNumbers refuses what a column of 32 bits does not hold.
func checkNumbers(e *topics.Event) error {
	step := 0
	if e.Step != nil {
		step = *e.Step
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"version", e.Version}, {"step", step}, {"attempt", e.Attempt}, {"count", e.Count}} {
		if int(int32(f.value)) != f.value {
			return fmt.Errorf("%s %d has more than 32 bits", f.name, f.value)
		}
	}
	return nil
}

// shortenKeys says whether a key had to be cut.
func shortenKeys(e *topics.Event) bool {
	trigger, tenant := e.Trigger, e.Tenant
	e.Trigger, e.Tenant = shortKey(trigger), shortKey(tenant)
	return e.Trigger != trigger || e.Tenant != tenant
}

// shortKey is longer than any trigger's key, so it is nobody else's.
func shortKey(k string) string {
	if len(k) <= maxKey {
		return k
	}
	sum := sha256.Sum256([]byte(k))
	return strings.ToValidUTF8(k[:maxKey/2], "") + "~" + hex.EncodeToString(sum[:])
}

func checkTimes(e *topics.Event) error {
	for _, f := range []struct{ name, text string }{
		{"occurred_at", e.OccurredAt},
		{"scheduled_at", e.ScheduledAt},
		{"first", e.First},
		{"last", e.Last},
		{"previous_scheduled_at", e.PreviousScheduled},
		{"first_fired_at", e.FirstFired},
		{"next_at", e.NextAt},
		{"effective_at", e.EffectiveAt},
	} {
		if f.text == "" {
			continue
		}
		if _, err := time.Parse(time.RFC3339, f.text); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// InstantOf is the instant of a field that DecodeEvent has let pass; 0 if absent.
func InstantOf(text string) trigger.Instant {
	if text == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return trigger.At(t)
}

// TextOf spells an instant as events do; "" for none.
func TextOf(i trigger.Instant) string {
	if i == 0 {
		return ""
	}
	return i.String()
}
