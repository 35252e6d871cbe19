package waterclock_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/internal/conformance"
	"github.com/waterclock/waterclock/clients/go/producer"
	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// args are the arguments of all calls. An unknown one fails the test.
type args struct {
	ID             string            `json:"id"`
	Trigger        json.RawMessage   `json:"trigger"`
	Time           waterclock.When   `json:"time"`
	Patch          json.RawMessage   `json:"patch"`
	IdempotencyKey string            `json:"idempotency_key"`
	IfRevision     int64             `json:"if_revision"`
	IfAbsent       bool              `json:"if_absent"`
	Async          bool              `json:"async"`
	RecordHeaders  [][2]string       `json:"record_headers"`
	For            string            `json:"for"`
	Until          string            `json:"until"`
	Occurrence     string            `json:"occurrence"`
	Note           string            `json:"note"`
	Timezone       string            `json:"timezone"`
	State          []string          `json:"state"`
	UserID         string            `json:"user_id"`
	Channel        string            `json:"channel"`
	Tags           map[string]string `json:"tags"`
	From           time.Time         `json:"from"`
	To             time.Time         `json:"to"`
	Cursor         string            `json:"cursor"`
	Limit          int               `json:"limit"`
	N              int               `json:"n"`
	Take           int               `json:"take"`
	Bucket         string            `json:"bucket"`
	Name           string            `json:"name"`
	Dates          []string          `json:"dates"`
	Lines          []map[string]any  `json:"lines"`
	CeID           string            `json:"ce_id"`
	Code           string            `json:"code"`
	Endpoint       string            `json:"endpoint"`
	DryRun         bool              `json:"dry_run"`
	IncludeExpired bool              `json:"include_expired"`
	By             string            `json:"by"`
	Status         string            `json:"status"`
	All            bool              `json:"all"`
	Rate           float64           `json:"rate"`
	raw            json.RawMessage
}

func errorFields(err error) map[string]any {
	e := waterclock.ErrorOf(err)
	if e == nil {
		return map[string]any{"type": "none", "detail": fmt.Sprint(err)}
	}
	if !errors.Is(err, e.Type) {
		return map[string]any{"type": "errors.Is does not find the type"}
	}
	return map[string]any{
		"type": string(e.Type), "status": float64(e.Status), "code": e.Code, "field": e.Field, "detail": e.Detail,
		"trigger_id": e.TriggerID, "state": e.State, "request_id": e.RequestID,
		"retry_after_ms": float64(e.RetryAfter.Milliseconds()), "attempts": float64(e.Attempts),
		"maybe_applied": e.MaybeApplied,
	}
}

// outcome returns where a result differs from the expectation of a step, or "".
func outcome(t *testing.T, got any, err error, expect, wantErr json.RawMessage) string {
	t.Helper()
	switch {
	case wantErr != nil && err == nil:
		return fmt.Sprintf("it succeeded with %v", conformance.Plain(t, got))
	case wantErr != nil:
		return conformance.Match(conformance.Plain(t, wantErr), errorFields(err))
	case err != nil:
		return err.Error()
	case expect != nil:
		return conformance.Match(conformance.Plain(t, expect), plain(t, got))
	}
	return ""
}

type step struct {
	Call       string            `json:"call"`
	Args       json.RawMessage   `json:"args"`
	Via        string            `json:"via"`
	Eventually bool              `json:"eventually"`
	Expect     json.RawMessage   `json:"expect"`
	Error      json.RawMessage   `json:"error"`
	Save       map[string]string `json:"save"`
}

// TestConformanceHTTP runs the cases against dev.
func TestConformanceHTTP(t *testing.T) {
	d := startDev(t, "--set", "channels.confirmed.receipts=true")
	c, err := waterclock.New(d.url, waterclock.Backoff(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	p, err := producer.New(producer.Brokers(d.kafka), producer.Kafka(kgo.ProducerLinger(0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	for i, cs := range conformance.Cases(t, "http") {
		t.Run(cs.Name, func(t *testing.T) {
			t.Parallel()
			for try := range 5 {
				vars := conformance.Vars{"run": fmt.Sprintf("r%d-%d%x", i, try, rand.Uint32()), "tenant": "default"}
				if runCase(t, c, p, cs, vars) {
					return
				}
			}
			t.Fatal("the engine did not decide within 2 s, five times")
		})
	}
}

// runCase returns false if the engine was too slow to decide.
func runCase(
	t *testing.T,
	c *waterclock.Client,
	p *producer.Producer,
	cs conformance.Case,
	vars conformance.Vars,
) bool {
	t.Helper()
	var body struct {
		Name, Kind string
		Steps      []json.RawMessage
	}
	cs.Decode(t, &body)
	for n, raw := range body.Steps {
		var s step
		conformance.Strict(t, vars.Expand(raw), &s)
		if !runStep(t, c, p, n+1, s, vars) {
			return false
		}
	}
	return true
}

// undecided reports whether an answer is a 202 that the case did not ask for.
func undecided(got any, a *args) bool {
	switch r := got.(type) {
	case *waterclock.Registered:
		return r != nil && !r.Decided && !a.Async
	case *waterclock.Changed:
		return r != nil && !r.Decided && !a.Async
	}
	return false
}

func runStep(t *testing.T, c *waterclock.Client, p *producer.Producer, n int, s step, vars conformance.Vars) bool {
	t.Helper()
	a := argsOf(t, s.Call, s.Args)
	ctx := within(t, 30*time.Second)
	end := time.Now().Add(20 * time.Second)
	for {
		var got any
		var err error
		if s.Via == "kafka" {
			err = send(ctx, t, p, s.Call, a)
		} else {
			got, err = call(ctx, t, c, s.Call, a)
		}
		if undecided(got, a) {
			return false
		}
		diff := outcome(t, got, err, s.Expect, s.Error)
		if diff == "" {
			for name, field := range s.Save {
				vars["saved."+name] = conformance.Get(conformance.Plain(t, got), field)
			}
			return true
		}
		if !s.Eventually || time.Now().After(end) {
			t.Fatalf("step %d, %s: %s", n, s.Call, diff)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestConformanceCommand checks the record of each call.
func TestConformanceCommand(t *testing.T) {
	for _, cs := range conformance.Cases(t, "command") {
		t.Run(cs.Name, func(t *testing.T) {
			var body struct {
				Name, Kind, Call, Tenant string
				Args                     json.RawMessage
				Record                   struct {
					Topic, Key            string
					Headers               [][2]string
					Value                 json.RawMessage
					Partitions, Partition int
				}
				Error json.RawMessage
			}
			cs.Decode(t, &body)
			cmd := commandOf(t, body.Call, argsOf(t, body.Call, body.Args))
			key, value, err := cmd.Record(body.Tenant)
			if body.Error != nil {
				if d := outcome(t, nil, err, nil, body.Error); d != "" {
					t.Fatal(d)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := body.Record
			if string(key) != want.Key {
				t.Errorf("the key is %q, want %q", key, want.Key)
			}
			got := conformance.Plain(t, json.RawMessage(value))
			if !reflect.DeepEqual(got, conformance.Plain(t, want.Value)) {
				t.Errorf("the value is %s, want %s", value, want.Value)
			}
			if len(cmd.Headers) != len(want.Headers) {
				t.Fatalf("the headers are %v, want %v", cmd.Headers, want.Headers)
			}
			for i, h := range cmd.Headers {
				if h.Key != want.Headers[i][0] || h.Value != want.Headers[i][1] {
					t.Errorf("header %d is %v, want %v", i, h, want.Headers[i])
				}
			}
			murmur2 := kgo.StickyKeyPartitioner(nil).ForTopic(want.Topic) // the partitioner of package producer
			if got := murmur2.Partition(&kgo.Record{Key: key}, want.Partitions); got != want.Partition {
				t.Errorf("it goes to partition %d, want %d", got, want.Partition)
			}
		})
	}
}

// TestConformanceSignature checks webhooks with valid and invalid signatures.
func TestConformanceSignature(t *testing.T) {
	for _, cs := range conformance.Cases(t, "signature") {
		t.Run(cs.Name, func(t *testing.T) {
			var body struct {
				Name, Kind       string
				Secrets          []string
				Headers          map[string]string
				Body             string
				BodyBase64       []byte `json:"body_base64"`
				Now              int64
				ToleranceSeconds int64 `json:"tolerance_seconds"`
				OK               bool
				Error            string
				Reads            *wantDelivery
			}
			cs.Decode(t, &body)
			h := http.Header{}
			for _, name := range slices.Sorted(maps.Keys(body.Headers)) {
				h.Set(name, body.Headers[name])
			}
			raw := body.BodyBase64
			if raw == nil {
				raw = []byte(body.Body)
			}
			v, err := waterclock.NewVerifier(body.Secrets...)
			if err == nil {
				v.Tolerance = time.Duration(body.ToleranceSeconds) * time.Second
				waterclock.SetNow(v, time.Unix(body.Now, 0))
				err = v.Verify(h, raw)
			}
			var got waterclock.SignatureError
			if err != nil && !errors.As(err, &got) {
				t.Fatalf("%v is no SignatureError", err)
			}
			if string(got) != body.Error || body.OK != (err == nil) {
				t.Errorf("it said %v, want %q", err, body.Error)
			}
			if body.Reads != nil {
				body.Reads.check(t, v, h, raw)
			}
		})
	}
}

// wantDelivery is what a verified webhook is read as.
type wantDelivery struct {
	TriggerID     string `json:"trigger_id"`
	Attempt       int
	Payload       json.RawMessage
	PayloadBase64 []byte `json:"payload_base64"`
	Raw           bool
}

func (want *wantDelivery) check(t *testing.T, v *waterclock.Verifier, h http.Header, body []byte) {
	t.Helper()
	d, err := v.Read(&http.Request{Header: h, Body: io.NopCloser(bytes.NewReader(body))})
	if err != nil {
		t.Fatal(err)
	}
	if d.TriggerID != want.TriggerID || d.Attempt != cmp.Or(want.Attempt, 1) || !bytes.Equal(d.Raw, body) {
		t.Errorf("%+v, want %+v", d, want)
	}
	if string(d.Payload) != string(want.Payload) || !bytes.Equal(d.Bytes, want.PayloadBase64) ||
		want.Raw != (d.Payload == nil && d.Bytes == nil) {
		t.Errorf("payload %s, bytes %x, want %+v", d.Payload, d.Bytes, want)
	}
}
