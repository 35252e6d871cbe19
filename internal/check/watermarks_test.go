package check

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// watermarkHistory is a partition with an event due at each second, late by 0.1 s, and with
// watermarks: the second of fired_through, the offset of events, and the partition (0) if it is
// another. "" is a null, "7 null" one with key 7, "7 key" a watermark of partition 7.
func watermarkHistory(events []string, watermarks ...string) *History {
	base := time.Date(2026, 3, 3, 14, 0, 0, 0, time.UTC)
	e := NewFile(FileMeta{Topic: "waterclock.events", End: 1000, Stable: 1000})
	for i, more := range events {
		fired := base.Add(time.Duration(i)*time.Second + 100*time.Millisecond)
		e.Append(&Record{
			Offset: int64(i), Timestamp: fired.UnixMilli(), ProducerID: -1, Key: fmt.Append(nil, "k", i),
			Value: fmt.Appendf(nil, `{"event_id":"0-%d","type":"occurrence.fired","trigger":"k%d","occurred_at":%q,`+
				`"event_us":%d,"occurrence":"o","step":0,"attempt":1,"lateness_ms":100%s}`, i, i,
				fired.Format(time.RFC3339Nano), fired.UnixMicro(), more),
		})
	}
	w := NewFile(FileMeta{Topic: "waterclock.watermarks", End: 1000, Stable: 1000})
	for i, value := range watermarks {
		r := &Record{Offset: int64(i), Timestamp: base.UnixMilli(), ProducerID: -1, Key: []byte("0")}
		key, what, _ := strings.Cut(value, " ")
		switch what {
		case "null", "key":
			r.Key = []byte(key)
			if what == "key" {
				r.Value = []byte(`{"partition":7,"fired_through":"2026-03-03T15:00:00Z","events_offset":0}`)
			}
		case "":
		default:
			var second, offset, partition int
			_, _ = fmt.Sscan(value, &second, &offset, &partition)
			r.Value = fmt.Appendf(nil, `{"partition":%d,"fired_through":%q,"events_offset":%d}`, partition,
				base.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano), offset)
		}
		w.Append(r)
	}
	return NewHistory("waterclock.", 1, []*File{e, w})
}

// An emission at or above the offset of a watermark that covers it is found, whatever else the
// history lacks.
func TestWatermarks(t *testing.T) {
	plain := []string{"", "", "", ""} // due at seconds 0 to 3
	late := []string{"", "", `,"effective_at":"2026-03-03T14:00:09.001Z"`, ""}
	early := []string{"", "", `,"effective_at":"2026-03-03T14:00:01.000Z"`, ""}
	for _, c := range []struct {
		name       string
		events     []string
		watermarks []string
		want       int64
	}{
		{"none", plain, nil, 0},
		{"as it must be", plain, []string{"0 1", "1 2", "3 4"}, 0},
		{"says too much", plain, []string{"0 1", "2 2", "3 4"}, 1},
		{"the offset is too low", plain, []string{"0 1", "1 1", "3 4"}, 1},
		{"everything came later", plain, []string{"9 0"}, 4},
		{"goes back", plain, []string{"3 4", "2 4"}, 1},
		{"its offset goes back", plain, []string{"2 4", "2 3"}, 1},
		{"withdrawn", plain, []string{"9 0", "", "1 2"}, 0},
		{"effective later", late, []string{"2 2"}, 0},
		{"not late enough", late, []string{"10 2"}, 2},
		{"effective before it is due", early, nil, 0},
		{"effective before it is due, with a watermark", early, []string{"0 1"}, 1},
		{"a snooze", []string{`,"occurrence":"snz-0-1"`}, []string{"9 0"}, 1},
		{"a run", []string{`,"occurrence":"run-0-1"`}, []string{"9 0"}, 1},
		{"withdrawn with another key", plain, []string{"9 0", "7 null", "9 1"}, 5},
		{"of another partition", plain, []string{"9 0 7"}, 1},
		{"with another key", plain, []string{"7 key"}, 1},
		{"a step", []string{`,"step":1`}, []string{"9 0"}, 0},
		{"a retry", []string{`,"attempt":2`}, []string{"9 0"}, 0},
	} {
		r, err := Verify(watermarkHistory(c.events, c.watermarks...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Counts[Behind]; got != c.want {
			t.Errorf("%s: %d violations, want %d: %+v", c.name, got, c.want, r.Violations)
		}
	}
}
