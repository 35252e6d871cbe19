package node

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
)

// largeEvents is a history with events that have large payloads. It counts what a page takes.
type largeEvents struct {
	sinks.History
	n    int64
	most int64 // bytes of the largest page
}

func (h *largeEvents) Events(_ context.Context, q sinks.EventQuery) (p sinks.EventPage, err error) {
	payload := json.RawMessage(`"` + strings.Repeat("x", 512<<10) + `"`)
	var bytes int64
	for seq := h.n; seq > 0; seq-- {
		if q.After != (sinks.EventCursor{}) && seq >= q.After.Seq {
			continue
		}
		e := sinks.EventRecord{Event: topics.Event{Seq: seq, EventUS: seq, Payload: payload}}
		if !p.Add(&q, e) {
			break
		}
		bytes += e.Size()
	}
	h.most = max(h.most, bytes)
	return p, nil
}

// Who explains a trigger reads its newest events without their payloads: 64 of 512 KiB take at most two at
// a time.
func TestLastEventsTakeLittle(t *testing.T) {
	for _, row := range []struct{ there, limit, want int64 }{{100, 64, 64}, {5, 64, 5}, {0, 64, 0}, {3, 1, 1}} {
		h := &largeEvents{n: row.there}
		list, err := historyReader{h: h}.LastEvents(t.Context(), "t", "t/k", int(row.limit))
		if err != nil || int64(len(list)) != row.want {
			t.Fatalf("%d of %d events, %v", len(list), row.there, err)
		}
		for i := range list {
			if list[i].Seq != row.there-row.want+1+int64(i) || len(list[i].Payload) > 0 {
				t.Errorf("event %d is %d, with %d bytes of payload", i, list[i].Seq, len(list[i].Payload))
			}
		}
		if h.most > 2*payloadsAtOnce {
			t.Errorf("a page takes %d bytes", h.most)
		}
	}
}
