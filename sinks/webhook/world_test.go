package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// The test keys: the new one and the old one.
const (
	newSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// due returns a due event of a callback, as the kit passes it.
func due(key, callback string, change ...func(*worker.DueEvent)) *worker.DueEvent {
	e := &worker.DueEvent{
		Key: key, Tenant: "default", ID: key + "@2026-11-20T14:00:00.000Z#0", Source: "/waterclock/test",
		Occurrence: "2026-11-20T14:00:00.000Z", Attempt: 1, Revision: 3,
		Scheduled: time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC),
		Fired:     time.Date(2026, 11, 20, 14, 0, 0, 3e6, time.UTC),
		Payload:   []byte(`{"say":"tea"}`),
		Headers:   []worker.Header{{Key: callbackHeader, Value: []byte(callback)}},
	}
	for _, c := range change {
		c(e)
	}
	return e
}

// to returns the header of a callback to a URL.
func to(u string, more ...string) string {
	says := map[string]any{"url": u}
	for i := 0; i+1 < len(more); i += 2 {
		says[more[i]] = more[i+1]
	}
	b, _ := json.Marshal(says)
	return string(b)
}

// loopback returns the policy of `waterclock dev`.
func loopback(t testing.TB, allow ...string) *egress.Policy {
	t.Helper()
	p, err := egress.NewPolicy(egress.Settings{Loopback: true, Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newTestWorker returns a worker that may call loopback.
func newTestWorker(t testing.TB, change ...func(*Options)) *Worker {
	t.Helper()
	policy := loopback(t)
	transport := egress.NewTransport(egress.Options{Policy: policy})
	t.Cleanup(transport.CloseIdleConnections)
	o := Options{Policy: policy, Transport: transport}
	for _, c := range change {
		c(&o)
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *Worker) one(t testing.TB, e *worker.DueEvent) worker.Result {
	t.Helper()
	r, err := w.Handle(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// answering replaces the network: it passes every request to a function.
type answering func(*http.Request) (*http.Response, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// with replaces the network, and permits public https URLs.
func with(f answering) func(*Options) {
	return func(o *Options) { o.Policy, o.Transport = new(egress.Policy), f }
}

func status(code int) answering {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
}
