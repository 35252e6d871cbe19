package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

// A tenant that sends batches without end, and one that listens without end,
// do not shut others out.
func TestNoTenantTakesAllSlots(t *testing.T) {
	log := &keptEvents{all: []topics.Event{
		event("acme/t", 10, 1, "trigger.registered"),
		event("blue/t", 10, 1, "trigger.registered"),
	}}
	w := newWorld(t, func(o *Options) { o.Auth, o.History, o.Batches, o.Followers = testKeys(t), log, 4, 4 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := func(method, path, key string, body io.Reader) {
		req, _ := http.NewRequestWithContext(ctx, method, w.url+path, body)
		req.Header.Set("Authorization", "Bearer "+key)
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
	}
	for range 4 {
		body, hold := io.Pipe()
		defer hold.Close()
		begin("POST", "/v1/triggers:batch", keyA, body)
		begin("GET", "/v1/triggers/t/events?follow=1", keyA, nil)
	}
	eventually(t, "two batches and two streams of acme", func() bool {
		return w.server.batches.slots.Held("acme") >= 2 && w.server.streams.slots.Held("acme") >= 2
	})
	if a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", at(`,"id":"b"`), "Authorization",
		"Bearer "+keyB); !strings.Contains(a.body, `"status":201`) {
		t.Errorf("the batch says %s", a.body)
	}
	w.following(ctx, t, "t", keyB)
}
