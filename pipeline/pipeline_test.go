package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// onEach runs a test on the in-process broker and, unless -short, on a real
// Kafka broker.
func onEach(t *testing.T, partitions int32, test func(t *testing.T, w *pipelinetest.World)) {
	t.Run("kfake", func(t *testing.T) {
		test(t, pipelinetest.New(t, pipelinetest.Options{Partitions: partitions, Channels: []string{"orders"}}))
	})
	t.Run("kafka", func(t *testing.T) {
		if testing.Short() {
			t.Skip("needs a JVM")
		}
		brokers := strings.Split(services.Kafka(t).Bootstrap, ",")
		test(t, pipelinetest.New(t, pipelinetest.Options{
			Partitions: partitions, Channels: []string{"orders"},
			Addresses: brokers, Prefix: fmt.Sprintf("t%x.", rand.Uint32()),
		}))
	})
}

func TestRegisterFires(t *testing.T)  { onEach(t, 2, registerFires) }
func TestCancelWins(t *testing.T)     { onEach(t, 2, cancelWins) }
func TestWrongPartition(t *testing.T) { onEach(t, 4, wrongPartition) }
func TestRestartGoesOn(t *testing.T)  { onEach(t, 2, restartGoesOn) }
func TestRejected(t *testing.T)       { onEach(t, 2, rejected) }

func registerFires(t *testing.T, w *pipelinetest.World) {
	n := w.Start("a")
	due, events := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Events())
	w.Send("hold-1", `{"op":"register","delay":"300ms","payload":{"a":1},"headers":{"x":"y"}}`)
	r := due.Next()
	if string(r.Key) != "hold-1" || string(r.Value) != `{"a":1}` {
		t.Fatalf("due record %q = %q", r.Key, r.Value)
	}
	if got := pipelinetest.Header(r, "ce_subject"); got != "hold-1" {
		t.Errorf("ce_subject %q", got)
	}
	reg := events.Event("hold-1", trigger.Registered)
	fired := events.Event("hold-1", trigger.OccurrenceFired)
	if reg.Seq != 1 || fired.Seq != 2 || fired.State != "FIRED" || fired.LatenessMS == nil {
		t.Errorf("events: %+v, %+v", reg, fired)
	}
	s, err := n.Get(w.Context(), "hold-1")
	if err != nil || s == nil || s.Status != trigger.Fired {
		t.Fatalf("state %+v, %v", s, err)
	}
	due.Quiet(300 * time.Millisecond)
}

func cancelWins(t *testing.T, w *pipelinetest.World) {
	w.Start("a")
	due, events := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Events())
	w.Send("x", `{"op":"register","delay":"800ms"}`)
	w.Send("x", `{"op":"cancel"}`)
	w.Send("y", `{"op":"register","delay":"900ms"}`)
	if r := due.Next(); string(r.Key) != "y" {
		t.Fatalf("%s fired", r.Key)
	}
	events.Event("x", trigger.CancelledFact)
}

func wrongPartition(t *testing.T, w *pipelinetest.World) {
	w.Start("a")
	due := w.Tail(w.Names.Due("default"))
	for i := range 20 {
		key := fmt.Sprintf("k%d", i)
		home := topics.Partition([]byte(key), 4)
		w.SendTo((home+1)%4, key, `{"op":"register","delay":"3s"}`)
		if i%2 == 0 {
			w.SendTo((home+2)%4, key, "cancel", kgo.RecordHeader{Key: "wc-op", Value: []byte("cancel")})
		}
	}
	seen := map[string]bool{}
	for _, r := range due.Take(10) {
		seen[string(r.Key)] = true
	}
	for i := 1; i < 20; i += 2 {
		if !seen[fmt.Sprintf("k%d", i)] {
			t.Errorf("k%d did not fire", i)
		}
	}
	due.Quiet(500 * time.Millisecond)
}

func restartGoesOn(t *testing.T, w *pipelinetest.World) {
	due := w.Tail(w.Names.Due("default"))
	for round, disk := range []string{"a", "a", "b", "a"} {
		w.Start(disk)
		w.SendAll(200, func(i int) (string, string) {
			return fmt.Sprintf("r%d-%d", round, i), fmt.Sprintf(`{"op":"register","delay":"%dms"}`, 300+i*5)
		})
		time.Sleep(700 * time.Millisecond)
		if err := w.Stop(disk); err != nil {
			t.Fatal(err)
		}
	}
	w.Start("c")
	seen := map[string]int{}
	for _, r := range due.Take(800) {
		seen[string(r.Key)]++
	}
	if len(seen) != 800 {
		t.Errorf("%d triggers fired, want 800", len(seen))
	}
	due.Quiet(500 * time.Millisecond)
}

func rejected(t *testing.T, w *pipelinetest.World) {
	w.Start("a")
	refusals := w.Tail(w.Names.Rejected())
	for _, c := range []struct{ name, body, code, field string }{
		{"garbage", "garbage", "not_a_command", ""},
		{"unknown field", `{"op":"register","delay":"1s","chanel":"x"}`, "unknown_field", "chanel"},
		{"two times", `{"op":"register","delay":"1s","fire_at":"2030-01-01T00:00:00Z"}`, "conflicting_time", ""},
		{"pause of nothing", `{"op":"pause"}`, "not_found", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.Send("k", c.body)
			r := refusals.Next()
			if got := pipelinetest.Header(r, "wc-error-code"); got != c.code {
				t.Errorf("code %q, want %q (%s)", got, c.code, pipelinetest.Header(r, "wc-error-detail"))
			}
			if got := pipelinetest.Header(r, "wc-error-field"); c.field != "" && got != c.field {
				t.Errorf("field %q, want %q", got, c.field)
			}
			if string(r.Value) != c.body {
				t.Errorf("value %q", r.Value)
			}
		})
	}
}
