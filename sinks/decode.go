package sinks

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// maxText bounds what becomes part of a row's key: Cassandra's keys end at
// 65,535 bytes, and a trigger key at 255.
const maxText = 4096

// maxAhead is how far an event may claim to be ahead of its append time. A
// row's write timestamp is event_us, so one garbled event from the year 9999
// could never be overwritten again.
const maxAhead = 24 * time.Hour

// DecodeEvent reads the value of one record of the events topic, appended at
// the given time. Unknown fields are passed over: a newer engine may say more.
// Its errors mean poison: bytes that no retry can turn into an event.
func DecodeEvent(value []byte, appended time.Time) (topics.Event, error) {
	var e topics.Event
	if err := json.Unmarshal(value, &e); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	if err := checkEvent(&e, appended); err != nil {
		return e, fmt.Errorf("decode event: %w", err)
	}
	return e, nil
}

func checkEvent(e *topics.Event, appended time.Time) error {
	switch {
	case e.Type == "":
		return errors.New("no type")
	case e.Tenant == "":
		return errors.New("no tenant")
	case e.EventUS <= 0:
		return fmt.Errorf("event_us %d is not a time", e.EventUS)
	case time.UnixMicro(e.EventUS).After(appended.Add(maxAhead)):
		return fmt.Errorf("event_us %d is more than a day after its append", e.EventUS)
	case e.Seq < 0:
		return fmt.Errorf("seq %d is negative", e.Seq)
	case len(e.Trigger) > maxText || len(e.Tenant) > maxText:
		return errors.New("a key longer than 4096 bytes")
	case !utf8.ValidString(e.Trigger) || !utf8.ValidString(e.Tenant):
		return errors.New("a key that is not UTF-8")
	}
	return checkTimes(e)
}

func checkTimes(e *topics.Event) error {
	for _, f := range []struct{ name, text string }{
		{"occurred_at", e.OccurredAt}, {"scheduled_at", e.ScheduledAt}, {"first", e.First},
		{"last", e.Last}, {"previous_scheduled_at", e.PreviousScheduled},
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
