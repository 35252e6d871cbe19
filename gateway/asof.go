package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/asof"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/trigger"
)

const asOfParameter = "as_of"

// getAsOf answers what a trigger was at an instant, from the history.
func (s *triggerViews) getAsOf(w http.ResponseWriter, r *request) error {
	at, err := s.instantAsked(r)
	if err != nil {
		return err
	}
	key, err := r.key(r.id())
	if err != nil {
		return problem.NotFound(r.id())
	}
	return s.reads.costly(w, r, func(w http.ResponseWriter, r *request) error {
		f := &asof.Fold{At: at}
		if err := s.foldHistory(r, key, f); err != nil {
			return err
		}
		switch f.Outcome() {
		case asof.BeforeHistory:
			return beforeHistory(f.Since()).About(r.id())
		case asof.Absent:
			return s.absent(r, f)
		}
		return sendJSON(w, http.StatusOK, triggerAsOf(key, f))
	})
}

// instantAsked is the instant of the parameter, which must be over.
func (s *triggerViews) instantAsked(r *request) (time.Time, error) {
	text := r.query.Get(asOfParameter)
	at, err := time.Parse(time.RFC3339, text) // with the microseconds of an event
	if err != nil {
		var ms int64
		ms, err = calendar.ParseInstant(text)
		at = trigger.Instant(ms).Time()
	}
	switch {
	case err != nil || at.Year() < 2000 || at.Year() > 2200:
		return at, problem.BadParameter(asOfParameter,
			"as_of is an instant such as 2026-03-03T14:00:00Z, with Z or an offset (+ is %2B in a URL)")
	case at.After(s.now()):
		return at, problem.BadParameter(asOfParameter, "as_of is in the future")
	}
	return at, nil
}

// foldHistory folds what the history has of a trigger. First it waits until the history has
// read what was appended before the question: a fold of less would be wrong.
func (s *triggerViews) foldHistory(r *request, key trigger.Key, f *asof.Fold) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	if err := s.events.caughtUp(ctx, key); err != nil {
		return err
	}
	var after EventCursor
	for {
		list, more, err := s.events.page(ctx, key, after, maxPage, eventsAtOnce)
		r.read.chargePage(len(list), maxPage, err)
		if err != nil {
			return err
		}
		for i := range list {
			if !f.Add(&list[i]) {
				return nil
			}
		}
		if !more {
			return nil
		}
		after = cursorOf(&list[len(list)-1])
	}
}

// caughtUp waits until the history has what the trigger's partition has now.
func (h *eventLog) caughtUp(ctx context.Context, key trigger.Key) error {
	if h.history == nil {
		return nil // page says so
	}
	at := kafkapart.TopicPartition{Topic: h.topic, Partition: h.router.PartitionOf(key)}
	end, err := stableEnd(ctx, h.kafka.Client(), at.Topic, at.Partition)
	if err != nil {
		return problem.Unavailable(err, "the event log does not answer")
	}
	ctx, cancel := context.WithTimeout(ctx, historyWithin)
	defer cancel()
	type offsets = map[kafkapart.TopicPartition]int64
	err = pollUntilRead(ctx, offsets{at: end}, func(ctx context.Context) (offsets, error) {
		next, err := h.history.Next(ctx, at.Partition)
		return offsets{at: next}, err
	})
	switch {
	case ctx.Err() != nil && err != nil:
		return problem.Unavailable(nil, "the history lags behind the event log: try again")
	case err != nil:
		return problem.Unavailable(err, "the history does not answer")
	}
	return nil
}

// absent distinguishes a trigger that the history knows nothing of from one that was not
// there.
func (s *triggerViews) absent(r *request, f *asof.Fold) error {
	if f.Empty() {
		if _, err := s.lookup.read(r); err == nil {
			return beforeHistory("").About(r.id())
		}
	}
	p := problem.NotFound(r.id())
	p.Detail = "the history has no such trigger at that instant"
	return p
}

// beforeHistory is an instant that the history does not reach: 410.
func beforeHistory(since string) *problem.Problem {
	detail := "the history of this trigger does not reach that far"
	if since == "" {
		detail = "the history has no plan of this trigger: its events with a rule have expired, or it never had one"
	}
	p := problem.New(http.StatusGone, problem.CodeBeforeHistory, asOfParameter, detail)
	p.Since = since
	return p
}

// triggerAsOf is a trigger as its events say. Its payload, what is live and what is skipped
// are not in events.
func triggerAsOf(key trigger.Key, f *asof.Fold) *Trigger {
	return &Trigger{
		Standing: Standing{
			TriggerID: key.ID(), Tenant: key.Tenant(), State: f.Status.String(), Revision: f.Revision,
			NextFireAt: f.Next, AsOf: trigger.At(f.At).String(),
		},
		register: registerAsOf(f),
		Firings: Firings{
			Attempt: f.Attempt, LastFiredAt: f.LastFired, Note: f.Note, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt,
		},
	}
}

// registerAsOf are the fields of a register that the events say. fire_at of a rule may be a
// wall time, so it is left to next_fire_at.
func registerAsOf(f *asof.Fold) []byte {
	fields := map[string]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(f.Rule))
	_ = dec.Decode(&fields) // a rule that is none shows nothing
	delete(fields, "fire_at")
	text := func(name, value string) {
		if value != "" {
			fields[name], _ = json.Marshal(value)
		}
	}
	text("channel", f.Channel)
	text("user_id", f.UserID)
	text("correlation_id", f.CorrelationID)
	for name, value := range map[string]string{
		"channel": "default", "priority": trigger.Normal.String(), "misfire": trigger.FireOnce.String(),
	} {
		if len(fields[name]) == 0 {
			text(name, value)
		}
	}
	if len(f.Tags) > 0 {
		fields["tags"], _ = json.Marshal(f.Tags)
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return b
}
