package waterclock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/internal/conformance"
	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// exchange is one expected request, and its answer.
type exchange struct {
	Request struct {
		Method        string
		Path          string
		Query         map[string][]string
		Headers       map[string]string
		AbsentHeaders []string          `json:"absent_headers"`
		Body          json.RawMessage   `json:"body"`
		Lines         []json.RawMessage `json:"lines"`
		SaveHeaders   map[string]string `json:"save_headers"`
		SaveLines     map[string][2]any `json:"save_lines"`
	}
	Answer struct {
		Status        int
		Headers       map[string]string
		Body          json.RawMessage
		Text          string
		ContentLength int `json:"content_length"`
		Close         bool
	}
}

// player serves a script, and collects deviations from it.
type player struct {
	t      *testing.T
	script []json.RawMessage
	vars   conformance.Vars

	mu     sync.Mutex
	played int
	faults []string
}

func (p *player) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf("request %d: ", p.played)+fmt.Sprintf(format, args...))
}

func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if p.played++; p.played > len(p.script) {
		p.fault("%s %s, and the script has ended", r.Method, r.RequestURI)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	var x exchange
	dec := json.NewDecoder(bytes.NewReader(p.vars.Expand(p.script[p.played-1])))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&x); err != nil {
		p.fault("%v", err)
	}
	p.check(&x, r, body)
	for name, header := range x.Request.SaveHeaders {
		p.vars["saved."+name] = r.Header.Get(header)
	}
	p.answer(&x, w)
}

func (p *player) check(x *exchange, r *http.Request, body []byte) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if want := x.Request; r.Method != want.Method || path != want.Path {
		p.fault("%s %s, want %s %s", r.Method, path, want.Method, want.Path)
	}
	query := map[string][]string(r.URL.Query())
	if x.Request.Query == nil {
		x.Request.Query = map[string][]string{}
	}
	if !reflect.DeepEqual(query, x.Request.Query) {
		p.fault("the query is %v, want %v", query, x.Request.Query)
	}
	for name, want := range x.Request.Headers {
		if d := conformance.Match(want, r.Header.Get(name)); d != "" {
			p.fault("header %s: %s", name, d)
		}
	}
	for _, name := range x.Request.AbsentHeaders {
		if _, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
			p.fault("there is a header %s", name)
		}
	}
	if x.Request.Body != nil {
		var got, want any
		_ = json.Unmarshal(x.Request.Body, &want)
		if err := json.Unmarshal(body, &got); err != nil || !reflect.DeepEqual(got, want) {
			p.fault("the body is %s, want %s", body, x.Request.Body)
		}
	}
	p.checkLines(x, body)
}

func (p *player) checkLines(x *exchange, body []byte) {
	if x.Request.Lines == nil {
		return
	}
	var lines []any
	for line := range bytes.Lines(body) {
		var v any
		if err := json.Unmarshal(line, &v); err != nil {
			p.fault("a line: %v", err)
		}
		lines = append(lines, v)
	}
	if len(lines) != len(x.Request.Lines) {
		p.fault("%d lines, want %d", len(lines), len(x.Request.Lines))
		return
	}
	for i, raw := range x.Request.Lines {
		var want any
		_ = json.Unmarshal(raw, &want)
		if d := conformance.Match(want, lines[i]); d != "" {
			p.fault("line %d: %s", i+1, d)
		}
	}
	for name, at := range x.Request.SaveLines {
		p.vars["saved."+name] = conformance.Get(lines[int(at[0].(float64))], at[1].(string))
	}
}

func (p *player) answer(x *exchange, w http.ResponseWriter) {
	text := []byte(x.Answer.Text)
	if x.Answer.Body != nil {
		text = x.Answer.Body
	}
	for name, v := range x.Answer.Headers {
		w.Header().Set(name, v)
	}
	if x.Answer.ContentLength > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(x.Answer.ContentLength))
	}
	if x.Answer.Status > 0 {
		w.WriteHeader(x.Answer.Status)
		_, _ = w.Write(text)
		_ = http.NewResponseController(w).Flush()
	}
	if x.Answer.Close {
		panic(http.ErrAbortHandler)
	}
}

// TestConformanceWire checks what each call sends, and how it interprets the answers.
func TestConformanceWire(t *testing.T) {
	for _, cs := range conformance.Cases(t, "wire") {
		t.Run(cs.Name, func(t *testing.T) {
			t.Parallel()
			var body struct {
				Name, Kind, Call string
				Args             json.RawMessage
				Script           []json.RawMessage
				Client           struct {
					Token     string
					BasePath  string `json:"base_path"`
					Retries   *int
					MaxWaitMS int64 `json:"max_wait_ms"`
				}
				Expect, Error json.RawMessage
				MinElapsedMS  int64 `json:"min_elapsed_ms"`
			}
			cs.Decode(t, &body)
			p := &player{t: t, script: body.Script, vars: conformance.Vars{}}
			server := httptest.NewServer(p)
			defer server.Close()
			opts := []waterclock.ClientOption{waterclock.Backoff(time.Millisecond), waterclock.Token(body.Client.Token)}
			if body.Client.Retries != nil {
				opts = append(opts, waterclock.Retries(*body.Client.Retries))
			}
			if body.Client.MaxWaitMS > 0 {
				opts = append(opts, waterclock.MaxWait(time.Duration(body.Client.MaxWaitMS)*time.Millisecond))
			}
			c, err := waterclock.New(server.URL+body.Client.BasePath, opts...)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			got, err := call(within(t, 30*time.Second), t, c, body.Call, argsOf(t, body.Call, body.Args))
			if took := time.Since(began); took < time.Duration(body.MinElapsedMS)*time.Millisecond {
				t.Errorf("it took %v", took)
			}
			if d := outcome(t, got, err, body.Expect, body.Error); d != "" {
				t.Error(d)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.played != len(p.script) {
				t.Errorf("%d requests, want %d", p.played, len(p.script))
			}
			for _, f := range p.faults {
				t.Error(f)
			}
		})
	}
}

// The revision of a write that was not decided is 0. As a condition it would be none.
func TestRevisionZero(t *testing.T) {
	ctx := t.Context()
	c, err := waterclock.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	one := waterclock.CancelCommand("a", waterclock.IfRevision(0))
	_, _, byKafka := one.Record("")
	_, byBatch := c.Batch(ctx, one)
	_, byHTTP := c.Cancel(ctx, "a", waterclock.IfRevision(0))
	_, register := c.Schedule(ctx, "a", waterclock.Register{}, waterclock.IfRevision(0))
	for _, err := range []error{byKafka, byBatch, byHTTP, register} {
		if e := waterclock.ErrorOf(err); e == nil || e.Field != "if_revision" || e.Attempts != 0 {
			t.Errorf("got %v, want that if_revision is refused", err)
		}
	}
}

// Several requests would have several outcomes, of which an error could tell one.
func TestBatchOfTooMany(t *testing.T) {
	c, err := waterclock.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Batch(t.Context(), slices.Repeat([]*waterclock.Command{waterclock.CancelCommand("a")}, 10_001)...)
	if e := waterclock.ErrorOf(err); e == nil || e.Type != waterclock.TooLarge || e.Attempts != 0 {
		t.Errorf("10,001 commands: %v", err)
	}
	if results, err := c.Batch(t.Context()); err != nil || len(results) != 0 {
		t.Errorf("no commands: %v, %v", results, err)
	}
}

// A key among the fields that the client does not know is one: a line has no second key.
func TestBatchKeyOfItsOwn(t *testing.T) {
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	r := waterclock.Register{Extra: map[string]any{"idempotency_key": "order-7"}}
	_, _ = c.Batch(t.Context(), waterclock.ScheduleCommand("", r))
	if got := string(sent); got != `{"idempotency_key":"order-7"}`+"\n" {
		t.Errorf("sent %s", got)
	}
}

// A batch has one answer, so it waits for all of its decisions or for none.
func TestBatchOptions(t *testing.T) {
	c, err := waterclock.New("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	for name, commands := range map[string][]*waterclock.Command{
		"async": {waterclock.CancelCommand("a", waterclock.Async()), waterclock.CancelCommand("b")},
		"record_headers": {
			waterclock.ScheduleCommand("a", waterclock.Register{}, waterclock.RecordHeader("traceparent", "00-1")),
		},
	} {
		_, err := c.Batch(t.Context(), commands...)
		if e := waterclock.ErrorOf(err); e == nil || e.Field != name || e.Attempts != 0 {
			t.Errorf("got %v, want that %s is refused", err, name)
		}
	}
	_, err = c.Cancel(t.Context(), "a", waterclock.RecordHeader("traceparent", "00-1"))
	if e := waterclock.ErrorOf(err); e == nil || e.Field != "record_headers" || e.Attempts != 0 {
		t.Errorf("got %v, want that record_headers is refused", err)
	}
}
