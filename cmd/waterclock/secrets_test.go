package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
	"github.com/waterclock/waterclock/topics"
)

// devWorld is `waterclock dev` in this process, with all of its output.
type devWorld struct {
	t           *testing.T
	http, kafka string
	out, log    *logtest.Buffer
	end         func()
}

func devInProcess(t *testing.T, env []string, args ...string) *devWorld {
	t.Helper()
	w := &devWorld{t: t, out: &logtest.Buffer{}, log: &logtest.Buffer{}}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int, 1)
	args = append([]string{
		"dev", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0",
		"--kafka-listen", "127.0.0.1:0",
	}, args...)
	go func() {
		done <- run(ctx, args, stdio{in: strings.NewReader(""), out: w.out, err: w.log, env: env})
	}()
	w.end = sync.OnceFunc(func() { stop(); <-done })
	t.Cleanup(w.end)
	address := regexp.MustCompile(`(?m)^  (Kafka|HTTP) +(?:http://)?([0-9.:]+)`)
	w.eventually("dev to be ready", func() bool {
		found := address.FindAllStringSubmatch(w.out.String(), -1)
		if len(found) == 2 {
			w.kafka, w.http = found[0][2], "http://"+found[1][2]
		}
		return len(found) == 2
	})
	return w
}

func (w *devWorld) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited for %s; the log: %s", what, w.log.String())
		}
	}
}

// call sends a request. Header names and values alternate.
func (w *devWorld) call(method, path, body string, header ...string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.http+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func (w *devWorld) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.kafka), kgo.RecordPartitioner(kgo.ManualPartitioner())},
		opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

// send appends a record to commands like any Kafka client.
func (w *devWorld) send(key, value string, headers ...string) {
	w.t.Helper()
	r := &kgo.Record{
		Topic: "waterclock.commands", Partition: topics.Partition([]byte(key), 4), Key: []byte(key),
		Value: []byte(value),
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	if err := w.client().ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// due reads the next due events of a channel.
func (w *devWorld) due(channel string, n int) []*kgo.Record {
	w.t.Helper()
	cl := w.client(kgo.ConsumeTopics("waterclock.due."+channel), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(50*time.Millisecond))
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n && ctx.Err() == nil {
		got = append(got, cl.PollFetches(ctx).Records()...)
	}
	if len(got) != n {
		w.t.Fatalf("%d due events, want %d", len(got), n)
	}
	return got
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// One trace leads from a request, or from the record of a foreign client, through the engine to
// an OTLP collector. A worker that takes the due event continues the same trace.
func TestTraceReachesACollector(t *testing.T) {
	c := tracingtest.NewCollector(t)
	w := devInProcess(t, []string{"WATERCLOCK_TRACING_EXPORTER=otlp"}, "--tracing-endpoint", c.URL)
	const over = "0af7651916cd43dd8448eb211c80319c"
	const raw = "1bf7651916cd43dd8448eb211c80319c"
	if status, body := w.call("PUT", "/v1/triggers/http", `{"delay":"300ms","channel":"orders"}`, "Traceparent",
		"00-"+over+"-b7ad6b7169203331-01"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	w.send("raw", `{"op":"register","delay":"300ms","channel":"orders"}`, "traceparent",
		"00-"+raw+"-b7ad6b7169203331-01")
	carried := map[string]string{}
	for _, r := range w.due("orders", 2) {
		carried[string(r.Key)] = headerOf(r, "traceparent")
	}
	w.end() // flushes the remaining spans
	byID := map[string]tracingtest.Span{}
	for _, s := range c.Spans() {
		byID[s.SpanID] = s
	}
	path := func(key string) (names []string) {
		last := carried[key][36:52]
		for s, ok := byID[last]; ok; s, ok = byID[s.Parent] {
			names = append(names, s.Name)
		}
		return names
	}
	if got, want := fmt.Sprint(path("http")),
		"[send waterclock.due.orders send waterclock.commands PUT /v1/triggers/{id}]"; got != want ||
		!strings.HasPrefix(carried["http"], "00-"+over) {
		t.Errorf("over HTTP %s in %s, want %s", got, carried["http"], want)
	}
	if got, want := fmt.Sprint(path("raw")), "[send waterclock.due.orders]"; got != want ||
		!strings.HasPrefix(carried["raw"], "00-"+raw) {
		t.Errorf("over Kafka %s in %s, want %s", got, carried["raw"], want)
	}
	decided := map[string]string{}
	for _, s := range byID {
		if s.Name == "process waterclock.commands" {
			decided[s.TraceID] = s.Attrs["waterclock.result"]
			if len(s.Links) != 1 || byID[s.Links[0]].Name != "turn" {
				t.Errorf("the decision is in no turn: %+v", s)
			}
		}
	}
	if decided[over] != "ok" || decided[raw] != "ok" {
		t.Errorf("decided %v", decided)
	}
}

// No secret of a caller reaches the log or a trace, even at level debug, whether the command is
// accepted or refused.
func TestLogsHaveNoSecrets(t *testing.T) {
	c := tracingtest.NewCollector(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	key := func(n int) string { return fmt.Sprintf("marked-api-key-%024d", n) }
	if err := os.WriteFile(keys, []byte("acme "+key(1)+" operator ops\nblue "+key(2)+" reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := devInProcess(t, []string{
		"WATERCLOCK_LOG_LEVEL=debug", "WATERCLOCK_LOG_REQUESTS=true", "WATERCLOCK_AUTH_KEYS_FILE=" + keys,
		"WATERCLOCK_WEBHOOK_SECRET=whsec_markedmarkedmarkedmarkedmarkedmarked",
		"WATERCLOCK_INTERNAL_SECRET=marked-internal-secret",
		"WATERCLOCK_POSTGRES_URL=postgres://u:marked-password@127.0.0.1/x", "WATERCLOCK_API_KEY=marked-own-key",
		"WATERCLOCK_AUTH_OIDC_ISSUER=http://127.0.0.1:1", "WATERCLOCK_AUTH_OIDC_AUDIENCE=a",
		"WATERCLOCK_TRACING_EXPORTER=otlp", "WATERCLOCK_TRACING_ENDPOINT=" + c.URL,
	})
	auth := []string{
		"Authorization", "Bearer " + key(1), "X-Marked", "marked-header", "Cookie", "marked-cookie",
		"Baggage", "k=marked-baggage", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	content := `"payload":{"x":"marked-payload"},"user_id":"marked-user","headers":{"x":"marked-user-header"},"tags":{"a":"marked-tag"}`
	for _, r := range []struct{ method, path, body string }{
		// It names its channel, because no PostgreSQL answers whether the user prefers another one.
		{"PUT", "/v1/triggers/a", `{"delay":"200ms","channel":"default",` + content + `}`},
		{
			"PUT", "/v1/triggers/b",
			`{"delay":"1h",` + content +
				`,"channel":"webhook","callback":{"url":"https://hooks.example/marked-callback?k=marked-callback-key"}}`,
		},
		{"PUT", "/v1/triggers/c", `{"delay":"1h","payload":"marked-payload`},
		{"PUT", "/v1/triggers/c", `{"dealy":"marked-value",` + content + `}`},
		{"PUT", "/v1/triggers/c", `{"delay":"1h","callback":{"url":"https://marked-user:marked-password@x/"}}`},
		{"PATCH", "/v1/triggers/b", `{"payload":"marked-payload"}`},
		{
			"POST", "/v1/triggers:batch",
			`{"id":"d","delay":"1h",` + content + "}\n{\"id\":\"e\",\"marked-name\":1}\n{\"marked",
		},
		{
			"POST", "/v1/triggers",
			`{"callbackUrl":"https://hooks.example/marked-callback","payload":"marked-payload","delaySeconds":60}`,
		},
		{"GET", "/v1/triggers?user_id=marked-user&tag=a:marked-tag", ""},
		{"GET", "/v1/triggers?marked-name=marked-value", ""},
		{"GET", "/v1/triggers?cursor=marked-cursor", ""},
		{"POST", "/v1/preview", `{"recurrence":"marked-rule"}`},
		{"POST", "/v1/triggers/a:snooze", `{"for":"marked-value"}`},
	} {
		w.call(r.method, r.path, r.body, auth...)
	}
	for _, credential := range []string{
		"marked-token", "marked.jwt.token",
		"eyJhbGciOiJSUzI1NiJ9.eyJtYXJrZWQiOiJtYXJrZWQtY2xhaW0ifQ.bWFya2Vk", key(3),
	} {
		if status, _ := w.call("GET", "/v1/triggers/a", "", "Authorization", "Bearer "+credential, "X-API-Key",
			"marked-other-key"); status < 400 {
			t.Errorf("%s is let in", credential)
		}
	}
	w.call("PUT", "/v1/triggers/a", `{"delay":"1h",`+content+`}`, "Authorization", "Bearer "+key(2))
	w.send("acme/raw", `{"op":"register","delay":"200ms",`+content+`}`, "x", "marked-header")
	w.send("acme/raw2", "marked-payload", "wc-delay", "marked-value", "wc-marked-name", "1")
	w.send("acme/raw3", `{"op":"marked-op","payload":"marked-payload"}`)
	w.send("acme/raw4", "\x00marked-payload")
	w.due("default", 2)
	w.end()
	log := w.log.String()
	if n := strings.Count(log, "msg=request "); n < 15 || !strings.Contains(log, "level=DEBUG") {
		t.Fatalf("%d requests in the log, which is no witness", n)
	}
	for _, line := range strings.Split(log+w.out.String()+c.Text(), "\n") {
		if i := strings.Index(line, "marked"); i >= 0 {
			t.Errorf("told: %s", line[max(0, i-300):min(len(line), i+100)])
		}
	}
	if len(c.Spans()) < 15 {
		t.Errorf("%d spans, which are no witness", len(c.Spans()))
	}
}
