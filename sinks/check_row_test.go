package sinks

import (
	"context"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// longHistory has many events of one trigger, and its row once they are applied.
type longHistory struct {
	History

	events int64
	begin  int64 // event_us of the first
	row    StateRow
	most   int // events in one call
}

func (h *longHistory) Trigger(context.Context, string, string) (TriggerState, bool, error) {
	s, ok := h.row.At(time.Now(), "", "")
	return s, ok, nil
}

func (h *longHistory) Events(_ context.Context, q EventQuery) (page EventPage, err error) {
	for seq := q.After.Seq + 1; seq <= h.events; seq++ {
		if len(page.Events) == q.Limit {
			page.Next = CursorOf(&page.Events[q.Limit-1])
			return page, nil
		}
		page.Events = append(page.Events, EventRecord{Event: topics.Event{
			Type: string(trigger.OccurrenceFired), State: trigger.Pending.String(), Seq: seq,
			EventUS: h.begin + seq,
		}})
	}
	return page, nil
}

func (h *longHistory) Apply(_ context.Context, batch []EventRecord) error {
	h.most = max(h.most, len(batch))
	for i := range batch {
		said := StateOf(&batch[i].Event, 24*time.Hour)
		h.row.Merge(&said)
	}
	return nil
}

// TestCheckRowOfManyEvents uses a trigger that fires every minute, and has more events than fit
// into memory. Its row must be rewritten from them page by page.
func TestCheckRowOfManyEvents(t *testing.T) {
	h := &longHistory{events: 101_000, begin: time.Now().Add(-time.Hour).UnixMicro()}
	k := Known{Key: "k", Status: trigger.Pending, Seq: h.events, At: trigger.At(time.Now()), Born: 1}
	for _, want := range []RowFault{RowDiffers, ""} {
		fault, mended, err := CheckRow(t.Context(), h, k, 24*time.Hour, time.Now(), true)
		if fault != want || mended != (want == RowDiffers) || err != nil {
			t.Fatalf("%q, mended %v, %v; want %q", fault, mended, err, want)
		}
	}
	if h.most > MaxPage {
		t.Errorf("%d events in one call", h.most)
	}
}
