package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/trigger"
)

// Lateness says how late due events were within a window.
type Lateness struct {
	AsOf   string `json:"as_of" format:"date-time" doc:"When the owners were asked: the end of the window"`
	Window string `json:"window" enum:"1m,1h"`
	Since  string `json:"since,omitempty" format:"date-time" doc:"Within the window: from when on all partitions that answered were counted, because one has a new owner, or its owner has restarted"`
	LatenessOf
	Items    []LatenessItem        `json:"items" doc:"The curve: each 5 s of the last minute, or each minute of the last hour; the last one is under way"`
	Channels map[string]LatenessOf `json:"channels" doc:"By channel"`
	Silent   []int32               `json:"silent_partitions" doc:"Partitions that did not answer, so that what they fired is missing"`

	Incomplete bool `json:"incomplete,omitempty" doc:"Too many tenants and channels fired at once to tell them all apart: counts by channel, and those of one tenant, are too low"`
}

// LatenessItem is one point of the curve.
type LatenessItem struct {
	At string `json:"at" format:"date-time" doc:"Where it begins"`
	LatenessOf
}

// LatenessOf sums up due events, retries and steps of escalations included. Without any it has
// no milliseconds.
type LatenessOf struct {
	Fires int64  `json:"fires" doc:"How many due events were emitted"`
	P50   *int64 `json:"p50_ms,omitempty" doc:"From due time, jitter included, to emission; at most an eighth above the exact value"`
	P99   *int64 `json:"p99_ms,omitempty"`
	Max   *int64 `json:"max_ms,omitempty"`
}

func latenessRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/lateness", right: auth.Read, handle: p.lateness.getLateness,
		costly: true, shared: true, doc: operation{
			id:      "getLateness",
			summary: "Report how late due events were: of the caller's tenant; for an operator of all tenants",
			query: []parameter{{
				name: "window", doc: "The last minute or the last hour (the default)", kind: of[string](),
				oneOf: []string{"1m", "1h"},
			}},
			answers: answers{200: of[Lateness]()},
		},
	}}
}

// latenessViews asks owners how late they were.
type latenessViews struct {
	router *peer.Router
	now    func() time.Time
}

const defaultWindow = "1h"

func (s *latenessViews) getLateness(w http.ResponseWriter, r *request) error {
	window, ok := lateness.WindowOf(r.query.Get("window"))
	if !ok { // any other name was refused by the table of parameters
		window, _ = lateness.WindowOf(defaultWindow)
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestWithin)
	defer cancel()
	now := trigger.At(s.now())
	return r.sendGathered(ctx, w, func() (any, error) {
		sum, silent, err := s.router.Lateness(ctx, now, window, r.ownTenant())
		if r.read.charge(len(sum.Slots) + len(sum.Channels)); err != nil {
			return nil, err
		}
		return latenessJSON(&sum, now, window, silent), nil
	})
}

// ownTenant is whose facts the caller may see: "" for all, which operators see.
func (r *request) ownTenant() string {
	if r.who.May(auth.Operate) {
		return ""
	}
	return r.who.Tenant
}

func latenessJSON(sum *lateness.Report, now trigger.Instant, window lateness.Window, silent []int32) Lateness {
	all := sum.All()
	out := Lateness{
		AsOf: now.String(), Window: window.Name, LatenessOf: latenessOf(&all),
		Items:    make([]LatenessItem, len(sum.Slots)),
		Channels: make(map[string]LatenessOf, len(sum.Channels)), Silent: append([]int32{}, silent...),
		Incomplete: sum.Incomplete,
	}
	if sum.SinceMS > sum.FirstMS {
		out.Since = trigger.Instant(sum.SinceMS).String()
	}
	for i := range sum.Slots {
		at := trigger.Instant(sum.FirstMS + int64(i)*window.Slot.Milliseconds())
		out.Items[i] = LatenessItem{at.String(), latenessOf(&sum.Slots[i])}
	}
	for channel, h := range sum.Channels {
		out.Channels[channel] = latenessOf(h)
	}
	return out
}

func latenessOf(h *lateness.Histogram) LatenessOf {
	if h.N == 0 {
		return LatenessOf{}
	}
	p50, p99 := h.Percentile(50), h.Percentile(99)
	return LatenessOf{Fires: h.N, P50: &p50, P99: &p99, Max: &h.Max}
}
