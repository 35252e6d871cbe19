package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"log/slog"
	"net/http"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Event is an event of a trigger, as a caller may see it.
type Event struct {
	topics.Event
	PayloadHidden bool `json:"payload_hidden,omitempty" doc:"It has a payload, which is left out: the caller's roles may not read it, or payload=false asked for that"`
}

// eventJSON shows an event, with or without its payload.
func eventJSON(e *topics.Event, payloads bool) Event {
	shown := Event{Event: *e}
	if !payloads {
		shown.PayloadHidden = len(e.Payload) > 0 || e.PayloadBase64 != ""
		shown.Payload, shown.PayloadBase64 = nil, ""
	}
	return shown
}

// Events is a page of what happened to a trigger.
type Events struct {
	Items      []Event `json:"items"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"Absent on the last page. A short page may have one, too"`
}

// eventStreams answers what happened to a trigger, by pages and as streams.
type eventStreams struct {
	*openStreams

	lookup  *lookup
	reads   *reads
	events  *eventLog
	cursors *cursorSeal
	log     *slog.Logger
}

// getEvents lists what happened to a trigger, or with follow=1 streams it. It works after
// the trigger has been forgotten, too, from the history.
func (s *eventStreams) getEvents(w http.ResponseWriter, r *request) error {
	key, err := r.key(r.id())
	if err != nil {
		return problem.NotFound(r.id())
	}
	if r.flag("follow") && r.Method != http.MethodHead {
		r.read.end() // a stream has a slot of its own
		return s.follow(w, r, key)
	}
	if r.query.Has("tail") {
		return s.newest(w, r, key)
	}
	limit, err := r.number("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	after, err := s.cursors.openEvent(key, r.query.Get("cursor"))
	if err != nil {
		return err
	}
	list, more, err := s.page(r, key, after, limit)
	if err == nil && !more && s.events.awaitNewest(r.Context(), key, cmp.Or(newestSeq(list), after.Seq)) {
		list, more, err = s.page(r, key, after, limit)
	}
	if err != nil {
		return err
	}
	if len(list) == 0 && after == (EventCursor{}) {
		return s.noEvents(w, r)
	}
	answer := eventsJSON(list, r.payloads())
	if more {
		answer.NextCursor = s.cursors.sealEvent(key, cursorOf(&list[len(list)-1]))
	}
	return sendJSON(w, http.StatusOK, answer)
}

// maxTail bounds tail=.
const maxTail = 200

// newest answers tail=: the newest events alone.
func (s *eventStreams) newest(w http.ResponseWriter, r *request, key trigger.Key) error {
	n, err := r.number("tail", 0, 1, maxTail)
	if err != nil {
		return err
	}
	for _, other := range []string{"cursor", "limit", "follow"} {
		if r.query.Has(other) {
			return problem.BadParameter(other, "tail and "+other+" do not go together: tail is the newest events alone")
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.events.within)
	defer cancel()
	var list []topics.Event
	read := func() error {
		return r.read.gather(ctx, func() (err error) {
			list, err = s.events.last(ctx, key, n)
			if r.read.chargePage(len(list), n, err); err != nil {
				return noHistory(err)
			}
			return nil
		})
	}
	if err = read(); err == nil && s.events.awaitNewest(ctx, key, newestSeq(list)) {
		err = read()
	}
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return s.noEvents(w, r)
	}
	return sendJSON(w, http.StatusOK, eventsJSON(list, r.payloads()))
}

func eventsJSON(list []topics.Event, payloads bool) Events {
	answer := Events{Items: make([]Event, 0, len(list))}
	for i := range list {
		answer.Items = append(answer.Items, eventJSON(&list[i], payloads))
	}
	return answer
}

// page reads a page within the bounds of bytes.
func (s *eventStreams) page(r *request, key trigger.Key, after EventCursor, limit int) (
	list []topics.Event, more bool, err error,
) {
	ctx, cancel := context.WithTimeout(r.Context(), s.events.within)
	defer cancel()
	err = r.read.gather(ctx, func() (err error) {
		list, more, err = s.events.page(ctx, key, after, limit, r.read.cost.Bytes)
		r.read.chargePage(len(list), limit, err)
		for i := range list {
			r.read.taken(int64(len(list[i].Payload) + len(list[i].PayloadBase64)))
		}
		return err
	})
	return list, more, err
}

// flags are the values of a boolean parameter.
var flags = []string{"0", "1", "false", "true"}

func (r *request) flag(name string) bool {
	value := r.query.Get(name)
	return value == "1" || value == "true"
}

// stale reports whether fresh=false asks for a read without the read barrier.
func (r *request) stale() bool { return r.query.Has("fresh") && !r.flag("fresh") }

// payloads reports whether the answer has payloads: the caller may read them, and payload=false does not leave them
// out.
func (r *request) payloads() bool {
	return r.who.May(auth.ReadPayloads) && (!r.query.Has("payload") || r.flag("payload"))
}

// noEvents distinguishes a trigger whose first event is not in the history yet from one
// that does not exist.
func (s *eventStreams) noEvents(w http.ResponseWriter, r *request) error {
	if _, err := s.lookup.read(r); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, Events{Items: []Event{}})
}

func cursorOf(e *topics.Event) EventCursor { return EventCursor{e.EventUS, e.Seq} }

// before reports whether an event comes after the cursor.
func (c EventCursor) before(e *topics.Event) bool {
	return e.EventUS > c.EventUS || e.EventUS == c.EventUS && e.Seq > c.Seq
}

// String is the id of a server-sent event. It shows nothing that the event itself does not show. It is
// not sealed, because a stream must go on after a restart that lost the secret of an only instance.
func (c EventCursor) String() string {
	return base64.RawURLEncoding.EncodeToString(c.bytes())
}

func (c EventCursor) bytes() []byte {
	return binary.AppendVarint(binary.AppendVarint(nil, c.EventUS), c.Seq)
}

// eventCursorOf decodes what bytes encoded.
func eventCursorOf(b []byte) (c EventCursor, ok bool) {
	us, n := binary.Varint(b)
	if n <= 0 {
		return c, false
	}
	seq, m := binary.Varint(b[n:])
	return EventCursor{us, seq}, m > 0 && n+m == len(b)
}

// All event times lie between these bounds, the years 2000 and 2286.
const (
	firstEventUS = 946_684_800_000_000
	lastEventUS  = 10_000_000_000_000_000
)

// parseEventCursor decodes what String encoded; "" is the zero cursor.
func parseEventCursor(s string) (EventCursor, error) {
	if s == "" {
		return EventCursor{}, nil
	}
	wrong := problem.BadParameter("", "this is not a cursor of this event list: begin without one")
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return EventCursor{}, wrong
	}
	c, ok := eventCursorOf(b)
	if !ok || c.EventUS < firstEventUS || c.EventUS > lastEventUS || c.Seq < 0 || c.String() != s {
		return EventCursor{}, wrong // many texts decode to some numbers
	}
	return c, nil
}
