package sinks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// maxKey bounds what becomes part of a row's key, because Cassandra's keys end at 65,535 bytes. A
// trigger's key has at most 255 bytes, but the key of a rejected command can be anything.
const maxKey = 1024

// maxAhead is how far an event may be ahead of its append time. A row's write timestamp is
// event_us. So a corrupt event from the year 9999 could never be overwritten. An event whose
// event_id has the same time was made by an engine, and is accepted. event_us never decreases, so
// it stays ahead for as long as a clock of the brokers once was.
const maxAhead = 24 * time.Hour

// maxValue bounds what one event may put into a row. It is a quarter of what Cassandra accepts in
// one write by default (max_mutation_size, 16 MiB). Cassandra would refuse a larger row for ever.
// An engine's event has a payload of at most 512 KiB.
const maxValue = 4 << 20

// DecodeEvent decodes the value of one record of the events topic, appended at the given time. It
// ignores unknown fields, because a newer engine may write more. A rejected command's event may
// name an empty trigger, or one too long for a row's key. That is cut to its beginning and a
// digest. Errors mean poison: bytes that no retry can turn into an event.
func DecodeEvent(value []byte, appended time.Time) (topics.Event, error) {
	e, err := decodeEvent(value, appended)
	if err == nil {
		shortenKeys(&e)
	}
	return e, err
}

// decodeEvent is DecodeEvent without shortened keys.
func decodeEvent(value []byte, appended time.Time) (topics.Event, error) {
	var e topics.Event
	if len(value) > maxValue {
		return e, fmt.Errorf("decode event: %d bytes are more than a row takes (%d)", len(value), maxValue)
	}
	if err := topics.UnmarshalEvent(value, &e); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	if err := checkEvent(&e, appended); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

func checkEvent(e *topics.Event, appended time.Time) error {
	if err := e.Check(); err != nil {
		return err
	}
	switch {
	case time.UnixMicro(e.EventUS).After(appended.Add(maxAhead)) &&
		!strings.HasSuffix(e.EventID, fmt.Sprintf("-%d", e.EventUS)):
		return fmt.Errorf("event_us %d is more than a day after its append", e.EventUS)
	case e.Seq < 0:
		return fmt.Errorf("seq %d is negative", e.Seq)
	}
	return checkTimes(e)
}

// shortenKeys reports whether it had to shorten a key.
func shortenKeys(e *topics.Event) bool {
	trigger, tenant := e.Trigger, e.Tenant
	e.Trigger, e.Tenant = shortKey(trigger), shortKey(tenant)
	return e.Trigger != trigger || e.Tenant != tenant
}

// shortKey shortens a key. The result is longer than any trigger's key, so it equals no other
// key.
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

// InstantOf returns the instant of a field that DecodeEvent has accepted, or 0 if it is absent.
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

// TextOf formats an instant as events do. 0 is "".
func TextOf(i trigger.Instant) string {
	if i == 0 {
		return ""
	}
	return i.String()
}
