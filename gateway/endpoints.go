package gateway

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/topics"
)

// Endpoints are the origins that webhook workers call, the worst first.
type Endpoints struct {
	Items   []Endpoint `json:"items"`
	Omitted int        `json:"omitted,omitempty" doc:"How many more there are"`
}

// Endpoint is an origin that one tenant's callbacks call, over all workers.
type Endpoint struct {
	Origin   string     `json:"origin" doc:"Scheme, host and port"`
	Tenant   string     `json:"tenant"`
	State    string     `json:"state" doc:"Of the breaker, the worst of the workers': closed, half_open or open"`
	InFlight int        `json:"in_flight" doc:"Calls under way"`
	OK       int64      `json:"ok" doc:"Calls that the endpoint answered, since the workers know it"`
	Failed   int64      `json:"failed" doc:"Calls that failed: time-outs, connection errors, 5xx, 408, 429"`
	LastCode string     `json:"last_code,omitempty" doc:"Code of the last call, or paused; none if it was delivered"`
	Until    *time.Time `json:"until,omitempty" doc:"When an open breaker lets calls out again"`
	Workers  int        `json:"workers" doc:"Processes that know it"`
}

// mostEndpoints bounds an answer.
const mostEndpoints = 10_000

// endpoints shows how the origins of webhooks fare, and tests one.
type endpoints struct {
	bodies *bodies

	now        func() time.Time
	origins    *endpointLog
	probe      func(ctx context.Context, tenant, url string, send bool) *egress.Report
	readWithin time.Duration
	tests      *slots.Slots // one for each endpoint that is being tested
}

// listEndpoints answers what the webhook workers publish on topic endpoints.
func (s *endpoints) listEndpoints(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	all, err := s.origins.read(ctx, s.now())
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	list := Endpoints{Items: mergeEndpoints(all)}
	if n := len(list.Items); n > mostEndpoints {
		list.Items, list.Omitted = list.Items[:mostEndpoints], n-mostEndpoints
	}
	return sendJSON(w, http.StatusOK, list)
}

// mergeEndpoints merges the states that the workers publish of each endpoint.
func mergeEndpoints(all []seenEndpoint) []Endpoint {
	by := map[[2]string]int{}
	list := []Endpoint{}
	slices.SortFunc(all, func(a, b seenEndpoint) int {
		return cmp.Or(a.called.Compare(b.called), cmp.Compare(a.offset, b.offset))
	})
	for i := range all {
		s := &all[i].state
		at, known := by[[2]string{s.Tenant, s.Origin}]
		if !known {
			at = len(list)
			by[[2]string{s.Tenant, s.Origin}] = at
			list = append(list, Endpoint{Origin: s.Origin, Tenant: s.Tenant, State: "closed"})
		}
		list[at].add(s)
	}
	slices.SortFunc(list, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(badness(b.State), badness(a.State)), cmp.Compare(b.Failed, a.Failed),
			cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Origin, b.Origin))
	})
	return list
}

// add adds the state of one more worker. That of the worker with the last call comes last.
func (e *Endpoint) add(s *topics.EndpointState) {
	e.Workers++
	e.InFlight += s.InFlight
	e.OK += s.OK
	e.Failed += s.Failed
	if badness(s.State) > badness(e.State) {
		e.State = s.State
	}
	if s.OK+s.Failed > 0 || s.LastCode != "" { // else its first call is under way
		e.LastCode = s.LastCode
	}
	if until := s.Until; !until.IsZero() && (e.Until == nil || until.After(*e.Until)) {
		e.Until = &until
	}
}

func badness(state string) int { return slices.Index([]string{"closed", "half_open", "open"}, state) }

// endpointLog is topic endpoints, merged up to the last request.
type endpointLog struct {
	topic *topicReader

	mu   sync.Mutex
	next int64
	by   map[string]seenEndpoint
}

type seenEndpoint struct {
	state  topics.EndpointState
	at     time.Time // append time
	called time.Time // the worker's last call; of an older worker, append time of the first record that shows it
	offset int64     // of that record
}

// staleEndpoint is the age at which a record has no living worker. Each worker writes its
// records once a minute.
const staleEndpoint = 5 * topics.EndpointEvery / 2

// mostSeen bounds what is kept of the topic. It is room for the endpoints of twenty
// workers.
var mostSeen = 200_000 // a variable for tests

// read returns the state of all endpoints of living workers.
func (l *endpointLog) read(ctx context.Context, now time.Time) ([]seenEndpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end, err := stableEnd(ctx, l.topic.kafka.Client(), l.topic.topic, 0)
	if err != nil {
		return nil, err
	}
	if l.by == nil || end < l.next { // the first read, or the topic was made again
		start, err := kafkapart.ListOffset(ctx, l.topic.kafka.Client(), l.topic.topic, 0, kafkapart.ReadCommitted,
			kafkapart.Earliest)
		if err != nil {
			return nil, err
		}
		l.next, l.by = start, map[string]seenEndpoint{}
	}
	if err := l.topic.read(ctx, 0, l.next, end, func(r *kgo.Record) error {
		l.fold(r, now)
		l.next = r.Offset + 1
		return nil
	}); err != nil {
		return nil, err
	}
	l.next = end
	var all []seenEndpoint
	for key, seen := range l.by {
		if now.Sub(seen.at) > staleEndpoint {
			delete(l.by, key) // a living worker writes it anew
			continue
		}
		all = append(all, seen)
	}
	return all, nil
}

// fold adds one record. It ignores records that are not the state of an endpoint, and those of no living worker: a
// topic that is read from its beginning may have any number of them.
func (l *endpointLog) fold(r *kgo.Record, now time.Time) {
	s, err := topics.DecodeEndpoint(r.Key, r.Value)
	key := string(r.Key)
	switch {
	case err != nil:
	case s == nil, now.Sub(r.Timestamp) > staleEndpoint:
		delete(l.by, key)
	case len(l.by) < mostSeen || l.by[key].state.Origin != "":
		seen := seenEndpoint{*s, r.Timestamp, s.CalledAt, r.Offset}
		if seen.called.IsZero() || seen.called.After(r.Timestamp) { // an older worker, or one whose clock is ahead
			seen.called = r.Timestamp
		}
		before := l.by[key]
		if b := &before.state; b.Origin != "" && b.OK == s.OK && b.Failed == s.Failed && b.LastCode == s.LastCode &&
			s.CalledAt.Equal(b.CalledAt) {
			seen.called, seen.offset = before.called, before.offset // each is written once a minute, also without calls
		}
		l.by[key] = seen
	}
}
