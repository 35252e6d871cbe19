package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// watermark is a record of topic watermarks.
type watermark struct {
	offset  int64 // its own offset
	through int64 // fired_through
	events  int64 // events_offset
}

// watermarks compares a partition's first emissions with its watermarks (C13). An emission whose
// time is at or before fired_through must be below that watermark's offset of events. Its time is
// effective_at, or else the due time.
func (v *verifier) watermarks(p int32) {
	said := v.watermarksOf(p)
	if len(said) == 0 {
		return
	}
	for i, f := range v.h.files {
		if f.kind == kindEvents && f.Partition == p {
			v.behind(f, newCursor(f, v.fates[i]), said)
		}
	}
}

// watermarksOf returns the watermarks in force: those after the last one that was withdrawn, by a null
// with the partition's key. They must never decrease. A record of another partition is a violation,
// and says nothing.
func (v *verifier) watermarksOf(p int32) (said []watermark) {
	for i, f := range v.h.files {
		if f.kind != kindWatermarks || f.Partition != p {
			continue
		}
		wrong := func(offset int64, format string, args ...any) {
			v.add(nil, Violation{
				Class: Behind, Partition: p, Records: []string{fmt.Sprintf("%s/%d/%d", f.Topic, p, offset)},
				Sentence: fmt.Sprintf(format, args...),
			})
		}
		for c := newCursor(f, v.fates[i]); c.next(); {
			if string(c.rec.Key) != strconv.Itoa(int(p)) {
				wrong(c.rec.Offset, "its key is %q, not the number of the partition", c.rec.Key)
				continue
			}
			if c.rec.Value == nil {
				said = said[:0]
				continue
			}
			var is struct {
				Partition int32     `json:"partition"`
				Through   time.Time `json:"fired_through"`
				Events    int64     `json:"events_offset"`
			}
			if err := json.Unmarshal(c.rec.Value, &is); err != nil {
				wrong(c.rec.Offset, "a watermark cannot be read: %v", err)
				continue
			}
			if is.Partition != p {
				wrong(c.rec.Offset, "it is of partition %d", is.Partition)
				continue
			}
			w := watermark{c.rec.Offset, is.Through.UnixMilli(), is.Events}
			if n := len(said); n > 0 && (w.through < said[n-1].through || w.events < said[n-1].events) {
				wrong(w.offset, "it goes back: %s and offset %d of events, before it stood %s and %d", spell(w.through),
					w.events, spell(said[n-1].through), said[n-1].events)
				continue
			}
			said = append(said, w)
		}
	}
	return said
}

var isFired = []byte(`"type":"occurrence.fired"`)

// behind reports emissions at or above the offset of a watermark that covers them. Both offsets
// and watermarks ascend.
func (v *verifier) behind(f *File, c *cursor, said []watermark) {
	next, found := 0, 0
	var e event
	for c.next() && found < 5 {
		for next < len(said) && said[next].events <= c.rec.Offset {
			next++
		}
		if !bytes.Contains(c.rec.Value, isFired) || decodeEvent(c.rec.Value, &e) != nil || !e.isFirst() {
			continue
		}
		record := []string{fmt.Sprintf("%s/%d/%d", f.Topic, f.Partition, c.rec.Offset)}
		due := e.occurred - e.late
		if e.effective != 0 && e.effective <= due {
			found++
			v.add(nil, Violation{
				Class: Behind, Trigger: e.trigger, Partition: f.Partition, Records: record,
				Sentence: fmt.Sprintf("effective_at %s is not later than the due time, %s", spell(e.effective),
					spell(due)),
			})
		}
		if next == 0 || max(due, e.effective) > said[next-1].through {
			continue
		}
		found++
		v.add(nil, Violation{
			Class: Behind, Trigger: e.trigger, Partition: f.Partition, Records: record,
			Sentence: fmt.Sprintf("its time is %s, but the watermark at offset %d says that everything up to %s "+
				"stands below offset %d", spell(max(due, e.effective)), said[next-1].offset,
				spell(said[next-1].through), said[next-1].events),
		})
	}
}

// isFirst reports whether an occurrence.fired is a first emission: no step or retry. The occurrences
// of snooze and run_now count, too.
func (e *event) isFirst() bool { return e.kind == "occurrence.fired" && e.step == 0 && e.attempt == 1 }
