package gateway

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A patch of anything else leaves the payload as it is, byte for byte: somebody
// may have signed it, and the limit counts its bytes.
func TestPatchLeavesThePayload(t *testing.T) {
	w := newWorld(t, nil)
	for i, payload := range []string{
		`{"b": 1, "a":"<&>", "a":2}`, `"` + strings.Repeat("<", 4000) + `"`, "{\"a\": 1}\n", " 7", "null", `"\u2028"`,
		"plain", "\xff\x00", `1e400`,
	} {
		for j, patch := range []string{`{"tags":{"x":"y"}}`, `{"fire_at":"2060-01-01T00:00:00Z","headers":{"x":"y"}}`} {
			id := fmt.Sprintf("p%d.%d", i, j)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id,
				at(`,"payload_base64":"`+base64.StdEncoding.EncodeToString([]byte(payload))+`"`))
			w.must(http.StatusOK, "PATCH", "/v1/triggers/"+id, patch)
			if got := string(w.state(idKey(id)).Spec.Payload); got != payload {
				t.Errorf("%.40q is %.40q after %s", payload, got, patch)
			}
		}
	}
}

// A payload that was sent as the value of a record keeps its content type too.
func TestPatchLeavesThePayloadOfARecord(t *testing.T) {
	w := newWorld(t, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rec := commandRecord(topics.Names{}.Commands(), testPartitions,
		&topics.Record{
			Key: []byte("k"), Value: []byte("{\"holdId\": \"h\"}\n"),
			Headers: []trigger.Header{
				{Key: "wc-delay", Value: []byte("1000d")},
				{Key: "content-type", Value: []byte("application/vnd.hold+json")},
			},
		})
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.engine.await("k")
	w.must(http.StatusOK, "PATCH", "/v1/triggers/k", `{"priority":"high"}`)
	if s := w.state("k").Spec; string(s.Payload) != "{\"holdId\": \"h\"}\n" ||
		s.ContentType != "application/vnd.hold+json" {
		t.Errorf("payload %q of %s", s.Payload, s.ContentType)
	}
}

// await returns when there is a trigger.
func (e *engine) await(key trigger.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.states[key] == nil {
		e.changed.Wait()
	}
}

// title and body go into the payload in one order, and as they are: a repeat has
// the same content, and a limit counts the caller's bytes.
func TestReminderPayloadIsTheSameEachTime(t *testing.T) {
	w := newWorld(t, nil)
	body := at(`,"title":"<b>","body":"` + strings.Repeat("&", 4000) + `"`)
	w.must(http.StatusCreated, "POST", "/api/reminders", body, "Idempotency-Key", "k")
	for range 20 {
		w.must(http.StatusOK, "POST", "/api/reminders", body, "Idempotency-Key", "k")
	}
}
