package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// httpCommander sends wishes through the HTTP API, which answers with the
// engine's decision (docs/api.md).
type httpCommander struct {
	api     *api
	goOn    bool          // durable is enough: nobody waits for the decision
	recalls time.Duration // how long the event of what is over is waited for; 0 means recallWithin
}

// recallWithin is long enough for a history that lags. An API without one has
// no event of what was.
const recallWithin = 10 * time.Second

func (h *httpCommander) Close() {}

func (h *httpCommander) Do(ctx context.Context, w wish) (decision, error) {
	d := decision{TriggerID: w.Key, Op: w.Op.String(), Result: resultAccepted}
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

// fromAnswer reads what the API answers to a write.
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
		if d.FireAt < answer.FireAt { // a snooze comes first: the local time is of the series
			d.LocalTime = ""
		}
	}
}

// complete reads what the answer to a register leaves out. Another change
// since then is none of its business.
func (h *httpCommander) complete(ctx context.Context, d *decision) error {
	var now struct {
		State     string `json:"state"`
		Revision  int64  `json:"revision"`
		LocalTime string `json:"local_time"`
	}
	err := h.api.get(ctx, triggerPath(d.TriggerID), &now)
	if exitOf(err) == exitNotFound {
		return nil
	}
	if now.Revision == d.Revision {
		d.State, d.LocalTime = now.State, now.LocalTime
	}
	return err
}

// route is the method and path of an op.
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

// timeFields are those of which a merge patch must take away the others.
var timeFields = []string{
	"delay", "fire_at", "recurrence", "start", "timezone", "until", "count", "include", "exclude",
	"calendars",
}

// fieldsOf is the body: the fields without those HTTP has headers for. A
// reschedule is a merge patch, so time fields not given are taken away.
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

// conditions are the fields HTTP has headers for. if_absent is none of them:
// If-None-Match refuses the same content too, which over Kafka is a repeat.
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
	var found *topics.Event
	var ended error
	waiting := ctx
	if d.over() {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, cmp.Or(h.recalls, recallWithin))
		defer cancel()
	}
	err := h.api.follow(waiting, triggerPath(d.TriggerID)+"/events?follow=1", func(e *topics.Event) bool {
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
