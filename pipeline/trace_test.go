package pipeline_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	foreignTrace = "0af7651916cd43dd8448eb211c80319c"
	foreignSpan  = "b7ad6b7169203331"
	foreignCalls = "00-" + foreignTrace + "-" + foreignSpan + "-01"
)

func TestTraces(t *testing.T) { onEach(t, 4, traces) }

// A command of a foreign client with a traceparent is followed to its due
// event; one without, one not sampled and one garbled leave no span, and all
// are decided.
func traces(t *testing.T, w *pipelinetest.World) {
	tracer, spans := tracingtest.Memory(t, 1)
	w.Start("a", func(o *pipeline.Options) { o.Tracing = tracer })
	due, events := w.Tail(w.Names.Due("orders")), w.Tail(w.Names.Events())
	quiet := "00-" + foreignTrace + "-" + foreignSpan + "-00"
	for _, c := range []struct{ key, traceparent, want string }{
		{"none", "", ""},
		{"quiet", quiet, quiet},
		{"garbled", foreignCalls + "0", ""},
		{"followed", foreignCalls, "span"},
	} {
		var headers []kgo.RecordHeader
		if c.traceparent != "" {
			headers = append(headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(c.traceparent)})
		}
		partition := topics.Partition([]byte(c.key), w.P)
		if c.key == "followed" {
			partition = (partition + 1) % w.P // its trace survives forwarding
		}
		w.SendTo(partition, c.key, `{"op":"register","delay":"200ms","channel":"orders","payload":"marked-payload"}`,
			headers...)
		r := due.Next()
		got := pipelinetest.Header(r, "traceparent")
		if c.want == "span" {
			c.want = spanNamed(t, spans, "send "+r.Topic).TraceParent()
		}
		if string(r.Key) != c.key || got != c.want {
			t.Errorf("%s: due event of %s with traceparent %q, want %q", c.key, r.Key, got, c.want)
		}
	}
	w.SendTo(topics.Partition([]byte("bad"), w.P), "bad", `{"op":"registr"}`,
		kgo.RecordHeader{Key: "traceparent", Value: []byte(foreignCalls)})
	events.Event("bad", trigger.Rejected)
	// a turn each for register, firing and refusal, and theirs
	w.Eventually("five spans", func() bool { return len(spans()) >= 5 })
	byName := map[string]int{}
	turns := map[string]bool{}
	for _, s := range spans() {
		byName[s.Name]++
		turns[s.SpanID] = s.Name == "turn"
	}
	if byName["process "+w.Names.Commands()] != 2 || byName["send "+w.Names.Due("orders")] != 1 || byName["turn"] != 3 {
		t.Errorf("spans %v", byName)
	}
	for _, s := range spans() {
		switch {
		case s.Failed != "":
			t.Errorf("failed: %+v", s)
		case s.Name == "turn":
			if s.Parent != "" || s.Links[0] != foreignSpan {
				t.Errorf("turn %+v", s)
			}
		case s.TraceID != foreignTrace || s.Parent != foreignSpan || len(s.Links) != 1 || !turns[s.Links[0]]:
			t.Errorf("%+v", s)
		}
		for name, value := range s.Attrs {
			if value == "marked-payload" {
				t.Errorf("%s of %s has the payload", name, s.Name)
			}
		}
	}
	if s := spanNamed(t, spans, "process "+w.Names.Commands()); s.Attrs["waterclock.op"] != "register" ||
		s.Attrs["waterclock.result"] != "ok" || s.Attrs["waterclock.trigger"] != "followed" || s.Kind != "consumer" {
		t.Errorf("the decision is %+v", s)
	}
}

// spanNamed waits for the first span of a name: they end with the commit.
func spanNamed(t *testing.T, spans func() []tracingtest.Span, name string) tracingtest.Span {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, s := range spans() {
			if s.Name == name {
				return s
			}
		}
	}
	t.Fatalf("no span %q among %+v", name, spans())
	return tracingtest.Span{}
}

// A turn that is given up says so, and its command is seen decided once more.
func TestTraceOfAbortedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, spans := tracingtest.Memory(t, 1)
		w := sim.New(t, sim.Options{Seed: 4, Change: func(_ string, o *pipeline.Options) { o.Tracing = tracer }})
		w.Start("a")
		w.AwaitOwners()
		w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Events(), Err: kerr.MessageTooLarge,
			Count: 1,
		})
		w.SendTo(w.Home("k"), "k", `{"op":"register","delay":"1h"}`,
			kgo.RecordHeader{Key: "traceparent", Value: []byte(foreignCalls)})
		time.Sleep(time.Minute)
		var names []string
		for _, s := range spans() {
			names = append(names, s.Name+"|"+s.Failed)
		}
		commands := "process " + w.Names.Commands() + "|"
		if want := []string{
			commands + "turn given up: produce", "turn|turn given up: produce", commands,
			"turn|",
		}; !slices.Equal(names, want) {
			t.Errorf("spans %q, want %q", names, want)
		}
	})
}

// A refusal that a gateway wrote is told as what it is, and touches nothing.
func TestRefusedByAGateway(t *testing.T) { onEach(t, 2, refusedByAGateway) }

func refusedByAGateway(t *testing.T, w *pipelinetest.World) {
	n := w.Start("a")
	events, rejected := w.Tail(w.Names.Events()), w.Tail(w.Names.Rejected())
	w.Send("acme/t", `{"op":"register","delay":"1h"}`)
	before := events.Event("acme/t", trigger.Registered)
	for _, key := range []string{"default/acme/t/", "blue/acme/t/"} {
		rec := topics.Refusal{
			Code: trigger.CodeNotFound, Actor: "svc",
			Detail: "another tenant's trigger: GET /v1/triggers/{id}",
		}.Record(key)
		w.SendTo(topics.Partition(rec.Key, w.P), key, string(rec.Value),
			kgo.RecordHeader{Key: rec.Headers[0].Key, Value: rec.Headers[0].Value})
		e := events.Event(key, trigger.Rejected)
		if e.Reason != "not_found" || e.Actor != "svc" ||
			e.Detail != "another tenant's trigger: GET /v1/triggers/{id}" || e.Tenant+"/acme/t/" != key || e.Seq != 0 ||
			e.Source == "" {
			t.Errorf("%s: %+v", key, e)
		}
		if r := rejected.Next(); string(r.Key) != key || pipelinetest.Header(r, "wc-error-code") != "not_found" {
			t.Errorf("rejected %s %v", r.Key, r.Headers)
		}
		if s, _ := n.Get(w.Context(), trigger.Key(key)); s != nil {
			t.Errorf("%s is remembered: %+v", key, s)
		}
	}
	if s, err := n.Get(w.Context(), "acme/t"); err != nil || s.Seq != before.Seq {
		t.Errorf("touched: %+v, %v", s, err)
	}
}
