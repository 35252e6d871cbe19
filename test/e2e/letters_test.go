package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// TestDeadLetters: what nobody could deliver is listed, counted, shown and tried
// again from the command line of a process that keeps its history, and goes out
// again once, under the same ce_id, as the next attempt.
func TestDeadLetters(t *testing.T) {
	w := newDevWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(w.topic("due.sms")),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.UnknownTopicRetries(-1),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const n = 5
	for i := range n {
		w.must(t, "schedule", fmt.Sprintf("k%d", i), "--in", "1s", "--channel", "sms", "--data", `{"a":1}`)
	}
	take := func(n int) (all []*kgo.Record) {
		for len(all) < n {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%d of %d due events came", len(all), n)
			}
			all = append(all, fetches.Records()...)
		}
		return all
	}
	answer := func(r *kgo.Record, outcome string) {
		attempt := pipelinetest.Header(r, "ce_wcattempt")
		value := fmt.Sprintf(`{"due_id":%q,"channel":"sms","outcome":%q,"attempt":%s,"code":"bad_number","detail":"no such line"}`,
			pipelinetest.Header(r, "ce_id"), outcome, attempt)
		rec := &kgo.Record{Topic: w.topic("receipts"), Key: r.Key, Value: []byte(value), Partition: r.Partition}
		if err := cl.ProduceSync(ctx, rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]string{}
	for _, r := range take(n) {
		ids[string(r.Key)] = pipelinetest.Header(r, "ce_id")
		answer(r, "failed")
	}
	letters := func(args ...string) (list []map[string]any) {
		out := w.must(t, append(append([]string{"dead-letters", "list"}, args...), "-o", "json")...)
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return list
	}
	for len(letters("--code", "bad_number")) < n {
		if time.Sleep(100 * time.Millisecond); ctx.Err() != nil {
			t.Fatalf("listed: %v", letters())
		}
	}
	if out := w.must(t, "dead-letters", "list", "--group-by", "code"); !strings.Contains(out, "bad_number") ||
		!strings.Contains(out, "5") {
		t.Errorf("by code: %s", out)
	}
	if out := w.must(t, "dead-letters", "show", "k1"); !strings.Contains(out, ids["k1"]) ||
		!strings.Contains(out, "no such line") {
		t.Errorf("show: %s", out)
	}
	if out := w.must(t, "explain", "k1"); !strings.Contains(out, "attempt 1") || !strings.Contains(out, "bad_number") ||
		!strings.Contains(out, "no such line") {
		t.Errorf("explain names neither attempt nor answer: %s", out)
	}
	if out := w.must(t, "dead-letters", "redrive", "--all", "--dry-run"); !strings.Contains(out, "5") {
		t.Errorf("dry run: %s", out)
	}
	w.must(t, "redrive", "k0")
	if out := w.must(t, "redrive", "k0", "-o", "ndjson"); !strings.Contains(out, `"duplicate":1`) {
		t.Errorf("a second time: %s", out)
	}
	out := w.must(t, "dead-letters", "redrive", "--code", "bad_number", "--rate", "1000", "-o", "ndjson")
	if !strings.Contains(out, `"redriven":4`) {
		t.Errorf("the rest: %s", out)
	}
	for _, r := range take(n) {
		id, attempt := pipelinetest.Header(r, "ce_id"), pipelinetest.Header(r, "ce_wcattempt")
		if id != ids[string(r.Key)] || attempt != "2" || string(r.Value) != `{"a":1}` {
			t.Errorf("%s went out again as attempt %s of %s with %s", r.Key, attempt, id, r.Value)
		}
		delete(ids, string(r.Key))
		answer(r, "delivered")
	}
	if len(ids) != 0 {
		t.Errorf("not tried again: %v", ids)
	}
	for len(letters("--status", "resolved")) < n {
		if time.Sleep(100 * time.Millisecond); ctx.Err() != nil {
			t.Fatalf("all were delivered, and listed are %v", letters("--status", "all"))
		}
	}
	if _, code, stderr := w.cli(t, "dead-letters", "redrive"); code != 2 || !strings.Contains(stderr, "--all") {
		t.Errorf("redrive of nothing: %d %s", code, stderr)
	}
	if _, code, _ := w.cli(t, "redrive", "nobody"); code != 3 {
		t.Errorf("redrive of nobody: exit code %d", code)
	}
}
