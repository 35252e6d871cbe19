package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// keepAlive is the time between two comments on an idle stream, so that no proxy closes it.
var keepAlive = 15 * time.Second

// follow streams the events of one trigger: those of the history, then those of topic
// events from where the history ends. Each carries its cursor as id. A caller that comes
// back with Last-Event-ID misses none and gets none twice.
func (s *eventStreams) follow(w http.ResponseWriter, r *request, key trigger.Key) error {
	after, err := s.from(r, key)
	if err != nil {
		return err
	}
	if err := s.followable(r, key); err != nil {
		return err
	}
	done, err := s.open(r)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer s.onStop(cancel)()
	tail, err := s.events.tail(ctx, key, after != EventCursor{})
	if err != nil {
		return err
	}
	defer tail.Close()
	out := &eventStream{sseWriter: newSSEWriter(w), payloads: r.payloads(), after: after}
	mayGoOn := func() bool { return s.admits.mayGoOn(r) }
	pay := func(events int) error { return s.reads.quota.pay(ctx, r.who.Tenant, events) }
	if err := s.events.replay(ctx, key, out, pay, mayGoOn); err != nil {
		switch {
		case ctx.Err() != nil, errors.Is(err, errNoLongerAdmitted): // the caller has hung up, or this server stops
			return nil
		case !out.begun:
			return err
		}
		// What follows in the topic would move Last-Event-ID past what is missing.
		s.log.Warn("an event stream was ended: the history does not answer", "error", err)
		return nil
	}
	out.begin()
	if err := out.tail(ctx, tail, key, mayGoOn); err != nil && ctx.Err() == nil {
		s.log.Warn("an event stream was ended: its topic cannot be read", "topic", s.events.topic, "error", err)
	}
	return nil
}

// from is where a stream begins: behind the event whose id was sent, or where a page ended. Who can
// set no header, as EventSource cannot at first, sends an id as cursor.
func (s *eventStreams) from(r *request, key trigger.Key) (EventCursor, error) {
	if id := r.Header.Get(lastEventID); id != "" {
		after, err := parseEventCursor(id)
		if err != nil {
			return after, problem.InField(err, lastEventID)
		}
		return after, nil
	}
	text := r.query.Get("cursor")
	if after, err := parseEventCursor(text); err == nil {
		return after, nil
	}
	return s.cursors.openEvent(key, text)
}

// followable refuses to follow a trigger that neither its owner nor the history knows. A
// cursor proves nothing, because anybody can make one up.
func (s *eventStreams) followable(r *request, key trigger.Key) error {
	if s.events.history != nil {
		if list, _, err := s.events.page(r.Context(), key, EventCursor{}, 1, 1); err != nil || len(list) > 0 {
			return err
		}
	}
	_, err := s.lookup.read(r)
	return err
}

// eventStream writes the events of one trigger.
type eventStream struct {
	*sseWriter

	payloads bool
	after    EventCursor // of the last event sent
	begun    bool
}

func (e *eventStream) begin() {
	if e.begun {
		return
	}
	e.begun = true
	e.sseWriter.begin()
}

func (e *eventStream) send(ev *topics.Event) {
	if !e.after.before(ev) || e.err != nil {
		return
	}
	e.begin()
	e.after = cursorOf(ev)
	data, err := json.Marshal(eventJSON(ev, e.payloads))
	if err != nil {
		e.err = err
		return
	}
	e.say(serverSent(e.after.String(), ev.Type, data))
}

// say writes a text at once: events are rare.
func (e *eventStream) say(text []byte) {
	e.write(text)
	e.flush()
}

// tail sends events until the caller leaves, may not have them any more, or the server stops. It
// returns errors that the client does not recover from; the caller then comes back with
// Last-Event-ID.
func (e *eventStream) tail(
	ctx context.Context, cl *kgo.Client, key trigger.Key, mayGoOn func() bool,
) error {
	_ = e.control.SetReadDeadline(time.Time{})
	spoke, admitted := time.Now(), time.Now()
	for e.err == nil && ctx.Err() == nil {
		if time.Since(admitted) >= admitEvery {
			if !mayGoOn() {
				return nil
			}
			admitted = time.Now()
		}
		within := min(time.Until(spoke.Add(keepAlive)), time.Until(admitted.Add(admitEvery)))
		poll, cancel := context.WithTimeout(ctx, within)
		fetches := cl.PollFetches(poll)
		cancel()
		if fetches.IsClientClosed() {
			return nil
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Key) != string(key) {
				return
			}
			if ev, err := topics.DecodeEvent(r.Value); err == nil {
				e.send(&ev)
				spoke = time.Now()
			}
		})
		if err := fetchError(fetches); err != nil {
			return err
		}
		if time.Since(spoke) >= keepAlive { // all records of a busy partition may be about other triggers
			e.say([]byte(": still here\n\n"))
			spoke = time.Now()
		}
	}
	return nil
}

// fetchError returns why a fetch brought nothing. A time-out is no error.
func fetchError(fetches kgo.Fetches) (err error) {
	fetches.EachError(func(_ string, _ int32, one error) {
		if !errors.Is(one, context.DeadlineExceeded) && !errors.Is(one, context.Canceled) {
			err = one
		}
	})
	return err
}
