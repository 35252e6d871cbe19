package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
	"github.com/waterclock/waterclock/sinks/webhook"
)

// carries answers each request with its traceparent.
type carries chan string

func (c carries) RoundTrip(r *http.Request) (*http.Response, error) {
	c <- r.Header.Get("Traceparent")
	code := 200
	if strings.Contains(r.URL.Path, "fails") {
		code = 500
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// TestSpanOfAbandonedAttempt: an attempt that was given up because its partition moved is no error.
func TestSpanOfAbandonedAttempt(t *testing.T) {
	tracer, spans := tracingtest.Memory(t, 1)
	parent := "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	_, end := workerTracer{tracer, webhook.Channel, "due"}.Start(t.Context(), &worker.DueEvent{TraceParent: parent})
	end(worker.Result{Outcome: worker.OutcomeAbandoned})
	if err := tracer.Close(context.Background()); err != nil {
		t.Error(err)
	}
	all := spans()
	if len(all) != 1 || all[0].Attrs["waterclock.outcome"] != "abandoned" || all[0].Failed != "" {
		t.Errorf("%+v", all)
	}
}

// TestWebhookTraces: a callback is a span below the one that sent its due event, and the receiver gets it as its
// traceparent. Where the trace is not recorded, the receiver gets the traceparent of the due event.
func TestWebhookTraces(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const sampled, not = "00-" + trace + "-00f067aa0ba902b7-01", "00-" + trace + "-00f067aa0ba902b7-00"
	tracer, spans := tracingtest.Memory(t, 1)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "waterclock.due.webhook",
		"waterclock.receipts"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: c, tracing: tracer, metrics: metrics.New()}
	n.shares.Receipts, n.shares.Buffer, n.shares.WorkerFetch = 1000, 1<<20, 1<<20
	seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
	got := make(carries, 1)
	w, err := webhook.New(webhook.Options{
		Kafka: []kgo.Opt{seeds}, Kit: n.kitOptions(webhook.Channel), Transport: got,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	producer, err := kgo.NewClient(seeds)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	call := func(key, parent string) string {
		t.Helper()
		r := &kgo.Record{Topic: "waterclock.due.webhook", Key: []byte(key), Value: []byte("{}")}
		for name, v := range map[string]string{
			"ce_specversion": "1.0", "ce_id": key + "@2026-11-20T14:00:00.000Z#0", "ce_source": "/waterclock/test",
			"ce_type":    worker.DueType,
			"ce_subject": key, "ce_time": "2026-11-20T14:00:00.000Z", "ce_wcfired": "2026-11-20T14:00:00.003Z",
			"ce_wcrevision": "1", "ce_wcattempt": "2", "ce_wcstep": "0", "traceparent": parent,
			"wcx-callback": `{"url":"https://a.example/` + key + `"}`,
		} {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
		if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		select {
		case parent = <-got:
		case err := <-done:
			t.Fatal("the worker has ended: ", err)
		case <-time.After(20 * time.Second):
			t.Fatal("no call")
		}
		return parent
	}
	works, fails, unseen := call("works", sampled), call("fails", sampled), call("unseen", not)
	if unseen != not {
		t.Errorf("a trace that is not recorded: %s", unseen)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := tracer.Close(context.Background()); err != nil {
		t.Error(err)
	}
	by := map[string]tracingtest.Span{}
	for _, s := range spans() {
		by[s.Attrs["waterclock.trigger"]] = s
	}
	for key, got := range map[string]string{"works": works, "fails": fails} {
		s := by[key]
		if s.TraceID != trace || s.Parent != "00f067aa0ba902b7" || got != s.TraceParent() ||
			s.Name != "process waterclock.due.webhook" || s.Attrs["waterclock.attempt"] != "2" {
			t.Errorf("%s: the receiver got %s, span %+v", key, got, s)
		}
	}
	if len(by) != 2 || by["works"].Attrs["waterclock.outcome"] != "delivered" || by["works"].Failed != "" ||
		by["fails"].Attrs["waterclock.outcome"] != "retry" || by["fails"].Failed == "" {
		t.Errorf("%+v", by)
	}
}
