package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// httpCommander sends commands through the HTTP API, which answers with the engine's decision
// (docs/api.md).
type httpCommander struct {
	api     *api
	goOn    bool          // do not wait for the decision; durable is enough
	recalls time.Duration // how long to wait for the event of a trigger that has ended; 0 means recallWithin
}

// recallWithin leaves enough time for a history that lags. An API without a history never has the
// event.
const recallWithin = 10 * time.Second

func (h *httpCommander) Close() {}

func (h *httpCommander) Do(ctx context.Context, w wish) (decision, error) {
	d := decision{TriggerID: w.Key, Op: w.Op.String(), Result: resultAccepted, asked: time.Now()}
	method, path := route(w)
	header := conditions(w)
	if h.goOn {
		header.Set("Prefer", "respond-async")
	}
	status, body, err := h.api.call(ctx, method, path, header, fieldsOf(w))
	if err != nil {
		return d, err
	}
	if d.Decided = status != http.StatusAccepted; d.Decided {
		d.Result = ""
	}
	if status == http.StatusCreated {
		d.Result = string(trigger.Registered)
	}
	if d.Decided && len(body) > 0 {
		d.fromAnswer(body)
	}
	if d.Decided && w.Op == trigger.OpRegister {
		return d, h.complete(ctx, &d)
	}
	return d, nil
}

// fromAnswer fills in the decision from the API's answer to a write.
func (d *decision) fromAnswer(body []byte) {
	var answer struct {
		State     string `json:"state"`
		Revision  int64  `json:"revision"`
		FireAt    string `json:"fire_at"`
		NextAt    string `json:"next_fire_at"`
		LocalTime string `json:"local_time"`

		Notes []string `json:"notes"`
	}
	if json.Unmarshal(body, &answer) == nil {
		d.Notes = answer.Notes
		d.State, d.Revision, d.FireAt, d.LocalTime = answer.State, answer.Revision, or(answer.NextAt, answer.FireAt),
			answer.LocalTime
		if d.FireAt < answer.FireAt { // a snooze comes first, and the local time is that of the series
			d.LocalTime = ""
		}
	}
}

// complete reads the fields that the answer to a register leaves out. It ignores them if another
// command has changed the trigger since. It also goes without them if they cannot be read just then, because a
// register that has a revision stands. An answer without one is not from a Waterclock API.
func (h *httpCommander) complete(ctx context.Context, d *decision) error {
	var now struct {
		State     string `json:"state"`
		Revision  int64  `json:"revision"`
		LocalTime string `json:"local_time"`
	}
	err := h.api.get(ctx, triggerPath(d.TriggerID), &now)
	if exitOf(err) == exitNotFound || err != nil && d.Revision > 0 {
		return nil
	}
	if now.Revision == d.Revision {
		d.State, d.LocalTime = now.State, now.LocalTime
	}
	return err
}

// route returns the method and path for an op.
func route(w wish) (method, path string) {
	path = triggerPath(w.Key)
	switch w.Op {
	case trigger.OpRegister:
		return http.MethodPut, path
	case trigger.OpReschedule:
		return http.MethodPatch, path
	case trigger.OpCancel:
		if note, ok := w.Fields["note"].(string); ok {
			path += "?note=" + url.QueryEscape(note)
		}
		return http.MethodDelete, path
	case trigger.OpRunNow:
		return http.MethodPost, path + ":run"
	}
	return http.MethodPost, path + ":" + w.Op.String()
}

// timeFields are the fields that a merge patch must remove unless they are given.
var timeFields = []string{
	"delay", "fire_at", "recurrence", "start", "timezone", "until", "count", "include", "exclude",
	"calendars", "dst",
}

// fieldsOf returns the request body: the fields without those that travel as headers. A
// reschedule is a merge patch, so it removes the time fields that are not given.
func fieldsOf(w wish) any {
	if w.Op == trigger.OpCancel {
		return nil
	}
	body := map[string]any{}
	if w.Op == trigger.OpReschedule {
		for _, name := range timeFields {
			body[name] = nil
		}
	}
	for name, v := range w.Fields {
		if name != "if_revision" && name != "idempotency_key" {
			body[name] = v
		}
	}
	return body
}

// conditions returns the fields that travel as headers. if_absent is not one of them:
// If-None-Match also refuses a register with the same content, which over Kafka counts as a
// repeat.
func conditions(w wish) http.Header {
	h := http.Header{}
	if rev, ok := w.Fields["if_revision"].(int64); ok {
		h.Set("If-Match", etag(rev))
	}
	if key, ok := w.Fields["idempotency_key"].(string); ok {
		h.Set("Idempotency-Key", key)
	}
	if w.Op == trigger.OpReschedule {
		h.Set("Content-Type", "application/merge-patch+json")
	}
	return h
}

func (h *httpCommander) AwaitFiring(ctx context.Context, d decision) (*topics.Event, error) {
	if err := h.awaitDecision(ctx, &d); err != nil {
		return nil, err
	}
	var found *topics.Event
	var ended error
	waiting := ctx
	if d.over() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, cmp.Or(h.recalls, recallWithin))
		defer cancel()
	}
	err := h.api.follow(waiting, followPath(d.TriggerID), nil, func(e *topics.Event) bool {
		if e.Revision < d.Revision || d.earlier(e) {
			return false
		}
		done, err := firing(e)
		if done {
			found, ended = e, err
		}
		return done
	})
	switch {
	case err != nil && d.over() && ctx.Err() == nil && waiting.Err() != nil:
		return nil, d.noMore()
	case err != nil:
		return nil, err
	}
	return found, ended
}

// awaitDecision waits for the decision of a register that is undecided. Events do not say over HTTP
// whose command they answer, so the first answer since the command was sent counts.
func (h *httpCommander) awaitDecision(ctx context.Context, d *decision) error {
	if d.Decided {
		return nil
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	var decided error
	began := func() {
		if h.decidedByState(waiting, d) {
			end()
		}
	}
	err := h.api.follow(waiting, followPath(d.TriggerID), began, func(e *topics.Event) bool {
		at, err := time.Parse(time.RFC3339, e.OccurredAt)
		if err != nil || at.Before(d.asked.Add(-clocksDiffer)) {
			return false
		}
		switch trigger.FactType(e.Type) {
		case trigger.Registered, trigger.Replaced, trigger.Duplicate, trigger.Rejected:
			decided = d.decide(trigger.OpRegister, answer{event: e})
			return true
		}
		return false
	})
	if d.Decided && decided == nil {
		return nil
	}
	return errors.Join(err, decided)
}

// decidedByState reports whether the trigger has changed since the command was sent. Without a history the
// stream of a new trigger begins behind the event of its decision.
func (h *httpCommander) decidedByState(ctx context.Context, d *decision) bool {
	var now struct {
		State     string
		Revision  int64
		FireAt    string `json:"fire_at"`
		LocalTime string `json:"local_time"`
		UpdatedAt string `json:"updated_at"`
	}
	if h.api.get(ctx, triggerPath(d.TriggerID), &now) != nil {
		return false // the stream says more
	}
	at, err := time.Parse(time.RFC3339, now.UpdatedAt)
	if err != nil || at.Before(d.asked.Add(-clocksDiffer)) {
		return false
	}
	d.Decided, d.Result = true, ""
	d.State, d.Revision, d.FireAt, d.LocalTime = now.State, now.Revision, now.FireAt, now.LocalTime
	return true
}

// followPath streams the events of a trigger, those of its history first.
func followPath(key string) string { return triggerPath(key) + "/events?follow=1" }
