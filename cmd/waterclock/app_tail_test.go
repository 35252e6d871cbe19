package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// produce appends records in one transaction, which it commits or aborts.
func produce(t *testing.T, brokers string, commit bool, records ...*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.TransactionalID(t.Name()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := producer.EndTransaction(t.Context(), cl, kgo.TransactionEndTry(commit), records...); err != nil {
		t.Fatal(err)
	}
}

func due(key, value string, headers ...string) *kgo.Record {
	r := &kgo.Record{
		Topic: "waterclock.due.default", Partition: topics.Partition([]byte(key), 16), Key: []byte(key),
		Value: []byte(value),
	}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func TestDueTail(t *testing.T) {
	brokers := cluster(t)
	produce(t, brokers, true,
		due("json", `{"a": 1.50}`, "ce_id", "json@x#0", "twice", "1", "twice", "2"),
		due("bytes", "\xff\x00", "ce_id", "bytes@x#0"), due("empty", ""))
	produce(t, brokers, false, due("aborted", `1`))
	r := cli(t, nil, "", "--brokers", brokers, "due", "tail", "default", "--from-beginning", "--no-follow", "-o",
		"ndjson")
	r.want(t, exitOK,
		`{"key":"json","headers":{"ce_id":"json@x#0","twice":["1","2"]},"value":{"a":1.50}}`,
		`{"key":"bytes","headers":{"ce_id":"bytes@x#0"},"value_base64":"/wA="}`,
		`{"key":"empty","headers":{},"value_base64":""}`)
	if strings.Contains(r.out, "aborted") {
		t.Error("an aborted record was shown")
	}
	cli(t, nil, "", "--brokers", brokers, "due", "tail", "default", "--from-beginning", "-n", "3").want(t, exitOK,
		"bytes@x#0")
	cli(t, nil, "", "--brokers", brokers, "due", "tail", "nowhere", "--no-follow").want(t, exitNotFound,
		"has no topic waterclock.due.nowhere yet")
	cli(t, nil, "", "--brokers", brokers, "due", "tail", "default", "--partition", "99").want(t, exitNotFound,
		"no such partition")
	cli(t, nil, "", "--brokers", brokers, "due", "tail", "default", "--no-follow").want(t, exitOK, "16 partitions")
}

// A tail may start before the channel's first trigger. It misses nothing.
func TestDueTailWaitsForTheChannel(t *testing.T) {
	brokers := cluster(t)
	notes, says := io.Pipe()
	var out bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"--brokers", brokers, "due", "tail", "late", "-n", "1"},
			stdio{out: &out, err: says})
	}()
	lines := bufio.NewScanner(notes)
	if !lines.Scan() || !strings.Contains(lines.Text(), "waiting for the first trigger") {
		t.Fatalf("said %q", lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, notes) }()
	cli(t, nil, "", "--brokers", brokers, "topics", "apply", "--set", "channels.late.receipts=true").want(t, exitOK)
	r := due("k", `1`, "ce_id", "k@x#0")
	r.Topic = "waterclock.due.late"
	produce(t, brokers, true, r)
	if got := <-code; got != exitOK || !strings.Contains(out.String(), "k@x#0") {
		t.Errorf("exit code %d, printed %q", got, out.String())
	}
}

func TestEventsTail(t *testing.T) {
	brokers := cluster(t)
	event := func(key, value string) *kgo.Record {
		return &kgo.Record{
			Topic: "waterclock.events", Partition: topics.Partition([]byte(key), 16), Key: []byte(key),
			Value: []byte(value),
		}
	}
	produce(t, brokers, true,
		event("a", `{"type":"trigger.registered","trigger":"a","revision":1,"from_the_future":true}`),
		event("a", `{"type":"occurrence.fired","trigger":"a","lateness_ms":2}`),
		event("b", `{"type":"occurrence.fired","trigger":"b"}`), event("b", `garbled`))
	tail := []string{"--brokers", brokers, "events", "tail", "--from-beginning", "--no-follow"}
	cli(t, nil, "", append(tail, "-o", "ndjson", "--trigger", "a", "--type", "trigger.*")...).want(t, exitOK,
		`"from_the_future":true`)
	r := cli(t, nil, "", append(tail, "--type", "occurrence.*", "--trigger", "a")...)
	r.want(t, exitOK, "late=2ms")
	if n := strings.Count(r.out, "\n"); n != 1 {
		t.Errorf("%d lines, want 1: %s", n, r.out)
	}
	cli(t, nil, "", tail...).want(t, exitOK, "is not an event")
	cli(t, nil, "", append(tail, "--type", "[")...).want(t, exitUsage, "--type")
}

func TestTopicsPlanAndApply(t *testing.T) {
	brokers := cluster(t)
	cli(t, nil, "", "--brokers", brokers, "topics", "plan").want(t, exitOK, "have the required settings")
	cli(t, nil, "", "--brokers", brokers, "topics", "plan", "--set", "topics.partitions=4").want(t, exitConflict,
		"topics.partitions")
	cli(t, nil, "", "--brokers", brokers, "topics", "apply", "--set", "topics.partitions=4").want(t, exitConflict,
		"topics.partitions")
	cli(t, nil, "", "--brokers", brokers, "topics", "plan", "-o", "ndjson", "--set", "channels.sms.retry=1s").want(t,
		exitOK,
		`{"change":"create","topic":"waterclock.due.sms"}`, `{"change":"create","topic":"waterclock.due.sms.high"}`)
	cli(t, nil, "", "--brokers", brokers, "topics", "apply", "--set", "channels.sms.retry=1s").want(t, exitOK)
	cli(t, nil, "", "--brokers", brokers, "topics", "plan").want(t, exitOK, "have the required settings")
}
