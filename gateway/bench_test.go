package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Registers by single requests over keep-alive connections, against a handler
// that only produces the body: the ratio is what the gateway costs. Broker,
// engine, server and client share the machine.
func BenchmarkRegister(b *testing.B) {
	body := []byte(`{"delay":"1000d","channel":"orders","payload":{"holdId":"h_8c4","seat":"12A"}}`)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	var n atomic.Int64
	post := func(b *testing.B, base string) {
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req, _ := http.NewRequest("PUT", fmt.Sprintf("%s/v1/triggers/t%d", base, n.Add(1)),
					bytes.NewReader(body))
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "registers/s")
	}
	w := newWorld(b, nil)
	b.Run("through=gateway", func(b *testing.B) { post(b, w.url) })
	b.Run("through=bare", func(b *testing.B) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ProducerLinger(0),
			kgo.DefaultProduceTopic(topics.Names{}.Commands()))
		if err != nil {
			b.Fatal(err)
		}
		defer cl.Close()
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			value, _ := io.ReadAll(r.Body)
			if err := cl.ProduceSync(r.Context(), &kgo.Record{Key: []byte(r.URL.Path), Value: value}).
				FirstErr(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusCreated)
		}))
		defer h.Close()
		post(b, h.URL)
	})
}

// Registers by batches of 10,000 lines.
func BenchmarkBatch(b *testing.B) {
	w := newWorld(b, nil)
	registers := 0
	for b.Loop() {
		var body bytes.Buffer
		for range maxBatch {
			registers++
			fmt.Fprintf(&body,
				`{"id":"b%d","delay":"1000d","channel":"orders","payload":{"holdId":"h_8c4","seat":"12A"}}`+"\n",
				registers)
		}
		resp, err := http.Post(w.url+"/v1/triggers:batch", "application/x-ndjson", &body)
		if err != nil {
			b.Fatal(err)
		}
		answers, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || bytes.Count(answers, []byte(`"status":201`)) != maxBatch {
			b.Fatalf("%v: %.300s", err, answers)
		}
	}
	b.ReportMetric(float64(registers)/b.Elapsed().Seconds(), "registers/s")
}

// A line of a batch up to its record: read, checked, spelled.
func BenchmarkLine(b *testing.B) {
	w := newWorld(b, nil)
	line := []byte(`{"id":"b1","delay":"1000d","channel":"orders","payload":{"holdId":"h_8c4","seat":"12A"}}`)
	r := &request{
		Request: httptest.NewRequest("POST", "/", nil),
		who:     auth.Caller{Tenant: trigger.DefaultTenant, Role: auth.Writer},
	}
	b.ReportAllocs()
	for b.Loop() {
		var id string
		c, err := w.server.batches.lineCommand(r, line, &id)
		if err != nil {
			b.Fatal(err)
		}
		c.record("commands", 16)
	}
}

// One GET of a trigger, HTTP and all.
func BenchmarkGet(b *testing.B) {
	w := newWorld(b, nil)
	if a := w.call("PUT", "/v1/triggers/g",
		`{"delay":"1000d","payload":{"holdId":"h_8c4"}}`); a.status != http.StatusCreated {
		b.Fatal(a.body)
	}
	for b.Loop() {
		resp, err := http.Get(w.url + "/v1/triggers/g")
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

// A patch up to the fields of its command: what the trigger has, merged.
func BenchmarkPatch(b *testing.B) {
	st := &trigger.State{Key: "p", Status: trigger.Pending, Revision: 3, Series: trigger.Series{At: 1_900_000_000_000}}
	st.Spec = trigger.Spec{
		Channel: "orders", UserID: "u_81", Payload: []byte(`{"holdId":"h_8c4","seat":"12A"}`),
		ContentType: "application/json",
		Tags:        []trigger.Tag{{Key: "a", Value: "1"}}, When: trigger.When{
			Kind: trigger.WhenDelay, DelayText: "7m",
			Delay: 420_000_000_000,
		},
	}
	body := []byte(`{"payload":{"seat":"14C"},"priority":"low"}`)
	b.ReportAllocs()
	for b.Loop() {
		patch, err := parseFields(body)
		if err == nil {
			patch, err = changing(st, patch)
		}
		if err == nil {
			_, _, _, err = patched(st, patch)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// A trigger as GET spells it.
func BenchmarkTriggerJSON(b *testing.B) {
	st := &trigger.State{
		Key: "p", Status: trigger.Pending, Revision: 3, CreatedAt: 1_800_000_000_000,
		UpdatedAt: 1_800_000_000_000,
		Series:    trigger.Series{At: 1_900_000_000_000},
	}
	st.Spec = trigger.Spec{
		Channel: "orders", UserID: "u_81", Payload: []byte(`{"holdId":"h_8c4","seat":"12A"}`),
		ContentType: "application/json",
		Tags:        []trigger.Tag{{Key: "a", Value: "1"}}, When: trigger.When{
			Kind: trigger.WhenDelay, DelayText: "7m",
			Delay: 420_000_000_000,
		},
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := sendJSON(httptest.NewRecorder(), http.StatusOK, triggerJSON(st, true)); err != nil {
			b.Fatal(err)
		}
	}
}
