package gateway

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
)

// LiveEvent is one event of a live stream, as its fields are spelled there.
type LiveEvent struct {
	ID    string `json:"id,omitempty" doc:"Of a fact: send it as Last-Event-ID to go on behind it"`
	Event string `json:"event" enum:"state,fact"`
	Data  string `json:"data" doc:"JSON: partitions and lateness (state), or an event of a trigger without its payload (fact)"`
}

// LiveState is what a live stream says at first and each second: its events of the name state.
type LiveState struct {
	At         string  `json:"at" format:"date-time"`
	Partitions int     `json:"partitions"`
	Ready      int     `json:"ready" doc:"Partitions that are restored and fire"`
	Silent     []int32 `json:"silent_partitions" doc:"Partitions that do not answer: what happens there is missing"`
	LatenessOf         // of the last minute: of the caller's tenant, to an operator of all tenants
	Incomplete bool    `json:"incomplete,omitempty" doc:"Too many tenants and channels fired to tell them all apart: the tenant's due events are too few"`
	Late       bool    `json:"late,omitempty" doc:"Something has been due for over 5 s, of any tenant, and has not gone out"`
	Facts      int64   `json:"facts" doc:"What has happened to the tenant's triggers since the state before"`
	Omitted    int64   `json:"omitted" doc:"How many of these the stream left out"`
	Missed     bool    `json:"missed,omitempty" doc:"Facts may be missing before this: read again what you show"`

	Pending     *int64   `json:"pending,omitempty" doc:"Of all tenants; operators alone see it, and what follows"`
	CommandsLag *int64   `json:"commands_lag,omitempty"`
	Overdue     *float64 `json:"oldest_overdue_seconds,omitempty"`
}

func liveRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/live", right: auth.Read, handle: p.live.getLive,
		doc: operation{
			id: "live",
			summary: "Follow what happens now, as server-sent events: state each second, and what happens to the " +
				"tenant's triggers (fact), at most 20 between two states, without payloads",
			query: []parameter{{
				name: "n", doc: "End after so many states", kind: of[int](), least: 1, most: maxStates,
			}},
			headers: []string{lastEventID},
			answers: answers{200: of[LiveEvent]()}, answerType: eventStreamType,
		},
	}}
}

const (
	maxStates   = 86_400
	lastEventID = "Last-Event-ID"
)

// liveStreams sends what happens now. All streams of a tenant have one source, liveFeeds.
type liveStreams struct {
	*openStreams

	feeds *liveFeeds
}

// eventID is the id of a fact in a stream: of which feed, and its number there.
var eventID = regexp.MustCompile(`^[0-9a-f]{16}-[1-9][0-9]{0,17}$`)

func (s *liveStreams) getLive(w http.ResponseWriter, r *request) error {
	n, err := r.number("n", maxStates+1, 1, maxStates)
	if err != nil {
		return err
	}
	after := r.Header.Get(lastEventID)
	if after != "" && !eventID.MatchString(after) {
		return problem.BadParameter(lastEventID, "this is not an event id of this stream: begin without one")
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", eventStreamType)
		return nil
	}
	done, err := s.open(r)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := newSSEWriter(w)
	end := func() { // even while it waits for its caller to read
		out.end()
		cancel()
	}
	defer s.onStop(end)()
	reader, err := s.feeds.subscribe(ctx, r.who.Tenant, r.who.May(auth.Operate), after, end)
	if err != nil {
		return problem.Unavailable(err, "the stream cannot begin")
	}
	defer s.feeds.unsubscribe(reader)
	s.send(ctx, r, out, reader, n)
	if reader.isDropped() {
		s.listener.StreamDropped()
	}
	return nil
}

// send sends what comes until the caller leaves, is too slow, may not have it any more, or has had n
// states.
func (s *liveStreams) send(ctx context.Context, r *request, out *sseWriter, from *liveReader, n int) {
	_ = out.control.SetReadDeadline(time.Time{})
	out.begin()
	admit := time.NewTicker(admitEvery)
	defer admit.Stop()
	for out.err == nil && n > 0 {
		select {
		case m := <-from.messages:
			for more := true; more && n > 0; {
				out.write(m.text)
				if m.state {
					n--
				}
				select {
				case m = <-from.messages:
				default:
					more = false
				}
			}
			out.flush()
		case <-admit.C:
			if !s.admits.mayGoOn(r) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
