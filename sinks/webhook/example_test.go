package webhook_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/webhook"
)

// network stands for the receiver.
type network func(*http.Request) (*http.Response, error)

func (f network) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An answer of 503 is retried. A URL inside the network is never called.
func ExampleWorker_Handle() {
	w, err := webhook.New(webhook.Options{Transport: network(func(r *http.Request) (*http.Response, error) {
		fmt.Println(r.Method, r.URL)
		return &http.Response{StatusCode: 503, Body: http.NoBody, Request: r}, nil
	})})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, url := range []string{"https://shop.example/hook", "https://10.0.0.1/"} {
		r, err := w.Handle(context.Background(), &worker.DueEvent{
			Key: "pills", Tenant: "acme", Attempt: 1, Payload: []byte(`{}`),
			Headers: []worker.Header{{Key: "wcx-callback", Value: []byte(`{"url":"` + url + `"}`)}},
		})
		fmt.Println(r.Outcome, r.Code, err)
	}
	// Output:
	// POST https://shop.example/hook
	// retry http_503 <nil>
	// failed forbidden_url <nil>
}
