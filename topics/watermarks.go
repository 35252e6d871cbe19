package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Watermark is a record on topic watermarks: up to which instant a partition has emitted what
// was due, and below which offsets that stands (docs/formats/watermarks.md). The record key is
// the partition's number, and the record stands on that partition. A null value withdraws the
// watermarks before it: the setting is off.
type Watermark struct {
	Partition int32
	Term      int64           // of the owner that wrote it
	At        trigger.Instant // the turn's reading of the clock
	// Each first emission whose effective_at, or else its due time, is at or before it stands
	// below the offsets.
	FiredThrough   trigger.Instant
	CommandsOffset int64 // commands below it are decided, and what they led to stands below the other offsets
	EventsOffset   int64
	Due            map[string]map[int32]int64 // by due topic and its partition
	// Held names what may keep something due back: a due topic that refuses records, or one of
	// the reasons below.
	Held []string
}

// The reasons in Watermark.Held that are not due topics. While one of them lasts, fired_through
// stands or falls behind.
const (
	HeldClock   = "clock"   // the clocks of node and brokers are too far apart, so nothing fires
	HeldBarrier = "barrier" // acknowledged commands are still unread
	HeldLag     = "lag"     // more is due than has fired yet
)

// IsHeldReason reports whether a name in Held is one of these reasons, and no due topic.
func IsHeldReason(name string) bool {
	return name == HeldClock || name == HeldBarrier || name == HeldLag
}

// watermarkJSON has the order and the names of the fields.
type watermarkJSON struct {
	Partition      int32                      `json:"partition"`
	Term           int64                      `json:"term"`
	At             string                     `json:"at"`
	FiredThrough   string                     `json:"fired_through"`
	CommandsOffset int64                      `json:"commands_offset"`
	EventsOffset   int64                      `json:"events_offset"`
	Due            map[string]map[int32]int64 `json:"due"`
	Held           []string                   `json:"held"`
}

// WatermarkKey is the record key of a partition's watermarks.
func WatermarkKey(partition int32) []byte { return strconv.AppendInt(nil, int64(partition), 10) }

// MarshalJSON writes the record's value. The same Watermark always gives the same bytes.
func (w *Watermark) MarshalJSON() ([]byte, error) {
	out := watermarkJSON{
		w.Partition, w.Term, w.At.String(), w.FiredThrough.String(), w.CommandsOffset, w.EventsOffset, w.Due, w.Held,
	}
	if out.Due == nil {
		out.Due = map[string]map[int32]int64{}
	}
	if out.Held == nil {
		out.Held = []string{}
	}
	return json.Marshal(&out)
}

// Value is the record's value.
func (w *Watermark) Value() []byte {
	b, err := w.MarshalJSON()
	if err != nil {
		panic(err) // no field can fail
	}
	return b
}

// maxWatermarkBytes bounds a record that is read.
const maxWatermarkBytes = 1 << 20

// DecodeWatermark reads a record. It returns nil if the value is null. It ignores fields of
// later versions.
func DecodeWatermark(key, value []byte) (*Watermark, error) {
	if value == nil {
		if _, err := strconv.ParseUint(string(key), 10, 31); err != nil {
			return nil, fmt.Errorf("decode watermark: the key %q is no partition", key)
		}
		return nil, nil
	}
	if len(value) > maxWatermarkBytes {
		return nil, errors.New("decode watermark: it is too large")
	}
	var in watermarkJSON
	d := json.NewDecoder(bytes.NewReader(value))
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("decode watermark: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("decode watermark: data after the object")
	}
	if !bytes.Equal(key, WatermarkKey(in.Partition)) {
		return nil, fmt.Errorf("decode watermark: the key is %q, the partition %d", key, in.Partition)
	}
	w := &Watermark{
		Partition: in.Partition, Term: in.Term, CommandsOffset: in.CommandsOffset, EventsOffset: in.EventsOffset,
		Due: in.Due, Held: in.Held,
	}
	var err error
	if w.At, err = parseMillis("at", in.At); err == nil {
		w.FiredThrough, err = parseMillis("fired_through", in.FiredThrough)
	}
	if err != nil {
		return nil, fmt.Errorf("decode watermark: %w", err)
	}
	return w, nil
}

// parseMillis reads an instant of a field.
func parseMillis(field, s string) (trigger.Instant, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", field, err)
	}
	return trigger.At(t), nil
}
