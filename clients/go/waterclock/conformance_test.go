package waterclock_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
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
	Status         string            `json:"status"`
	All            bool              `json:"all"`
	Rate           float64           `json:"rate"`
	raw            json.RawMessage
}

func argsOf(t *testing.T, call string, raw json.RawMessage) *args {
	t.Helper()
	a := &args{raw: raw}
	if call != "preview" {
		conformance.Strict(t, raw, a)
	}
	return a
}

func (a *args) options() (opts []waterclock.Option) {
	if a.IfRevision != 0 {
		opts = append(opts, waterclock.IfRevision(a.IfRevision))
	}
	if a.IfAbsent {
		opts = append(opts, waterclock.IfAbsent())
	}
	if a.IdempotencyKey != "" {
		opts = append(opts, waterclock.IdempotencyKey(a.IdempotencyKey))
	}
	if a.Note != "" {
		opts = append(opts, waterclock.Note(a.Note))
	}
	if a.Async {
		opts = append(opts, waterclock.Async())
	}
	for _, h := range a.RecordHeaders {
		opts = append(opts, waterclock.RecordHeader(h[0], h[1]))
	}
	return opts
}

// registerFields are the JSON names of Register's fields.
var registerFields = fieldNames(reflect.TypeFor[waterclock.Register]())

func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{"payload": true}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			maps.Copy(names, fieldNames(f.Type))
		} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names[name] = true
		}
	}
	return names
}

// register returns the Register that a user would write. Fields that it does not have become
// Extra.
func register(t *testing.T, raw json.RawMessage) waterclock.Register {
	t.Helper()
	var r waterclock.Register
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(raw, &all), json.Unmarshal(raw, &r)); err != nil {
		t.Fatal(err)
	}
	for name, v := range all {
		if !registerFields[name] {
			if r.Extra == nil {
				r.Extra = map[string]any{}
			}
			r.Extra[name] = v
		}
	}
	if p, ok := all["payload"]; ok {
		r.Payload = p
	}
	return r
}

// result is the return value of a call, under the names of the README.
type result map[string]any

// call calls one method.
func call(ctx context.Context, t *testing.T, c *waterclock.Client, name string, a *args) (any, error) {
	t.Helper()
	switch name {
	case "schedule":
		return c.Schedule(ctx, a.ID, register(t, a.Trigger), a.options()...)
	case "get":
		return c.Get(ctx, a.ID)
	case "list":
		return c.List(ctx, a.filter())
	case "list_all":
		return collect(c.All(ctx, a.filter()), 0)
	case "cancel":
		return c.Cancel(ctx, a.ID, a.options()...)
	case "reschedule":
		return c.Reschedule(ctx, a.ID, a.Time, a.options()...)
	case "update":
		return c.Update(ctx, a.ID, a.Patch, a.options()...)
	case "snooze":
		return c.Snooze(ctx, a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, a.options()...)
	case "skip":
		return c.Skip(ctx, a.ID, a.Occurrence, a.options()...)
	case "ack":
		return c.Ack(ctx, a.ID, a.Occurrence, a.options()...)
	case "pause":
		return c.Pause(ctx, a.ID, a.Note, a.options()...)
	case "resume":
		return c.Resume(ctx, a.ID, a.Note, a.options()...)
	case "run":
		return c.Run(ctx, a.ID, a.options()...)
	case "rezone":
		return c.Rezone(ctx, a.ID, a.Timezone, a.options()...)
	case "erase":
		return c.Erase(ctx, a.ID, a.options()...)
	case "redrive":
		return c.Redrive(ctx, a.ID, waterclock.Redrive{CeID: a.CeID})
	case "redrive_all":
		return redriveAll(ctx, c, a)
	}
	return readCall(ctx, t, c, name, a)
}

func readCall(ctx context.Context, t *testing.T, c *waterclock.Client, name string, a *args) (any, error) {
	t.Helper()
	switch name {
	case "events":
		return c.Events(ctx, a.ID, a.Cursor, a.Limit)
	case "events_all":
		return collect(c.AllEvents(ctx, a.ID, a.Limit), 0)
	case "follow":
		return collect(c.Follow(ctx, a.ID), a.Take)
	case "occurrences":
		return listed(c.Occurrences(ctx, a.ID, a.N))
	case "preview":
		var p waterclock.Preview
		conformance.Strict(t, a.raw, &p)
		list, err := c.Preview(ctx, p)
		return result{"occurrences": list}, err
	case "upcoming":
		bucket, err := time.ParseDuration(a.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		return listed(c.Upcoming(ctx, bucket, a.N))
	case "partitions":
		return listed(c.Partitions(ctx))
	case "channels":
		return listed(c.Channels(ctx))
	case "endpoints":
		return listed(c.Endpoints(ctx))
	case "dead_letters":
		return c.DeadLetters(ctx, a.deadLetters())
	case "dead_letters_all":
		return collect(c.AllDeadLetters(ctx, a.deadLetters()), 0)
	case "calendars":
		return listed(c.Calendars(ctx))
	case "put_calendar":
		return c.PutCalendar(ctx, a.Name, a.Dates...)
	case "get_calendar":
		return c.Calendar(ctx, a.Name)
	case "delete_calendar":
		return c.DeleteCalendar(ctx, a.Name)
	case "batch":
		return batch(ctx, t, c, a)
	}
	t.Fatalf("no call %q", name)
	return nil, nil
}

func (a *args) filter() waterclock.Filter {
	return waterclock.Filter{
		State: a.State, UserID: a.UserID, Channel: a.Channel, Tags: a.Tags, From: a.From, To: a.To,
		Cursor: a.Cursor, Limit: a.Limit,
	}
}

func (a *args) deadLetters() waterclock.DeadLetterFilter {
	return waterclock.DeadLetterFilter{
		TriggerID: a.ID, Channel: a.Channel, Code: a.Code, Endpoint: a.Endpoint, From: a.From, To: a.To,
		Status: a.Status, Cursor: a.Cursor, Limit: a.Limit,
	}
}

// redriveAll returns the last progress.
func redriveAll(ctx context.Context, c *waterclock.Client, a *args) (last any, err error) {
	r := waterclock.Redrive{
		Channel: a.Channel, Code: a.Code, Endpoint: a.Endpoint, From: a.From, To: a.To, All: a.All, Rate: a.Rate,
		Note: a.Note,
	}
	for p, err := range c.RedriveAll(ctx, r) {
		if err != nil {
			return nil, err
		}
		last = p
	}
	return last, nil
}

// plain converts a result, with the fields that only Raw has.
func plain(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case *waterclock.Trigger:
		return withRaw(t, v, v.Raw)
	case *waterclock.Page[waterclock.Event]:
		page := conformance.Plain(t, v).(map[string]any)
		for i, e := range v.Items {
			page["items"].([]any)[i] = withRaw(t, e, e.Raw)
		}
		return page
	}
	return conformance.Plain(t, v)
}

func withRaw(t *testing.T, v any, raw json.RawMessage) any {
	t.Helper()
	all := conformance.Plain(t, raw).(map[string]any)
	maps.Copy(all, conformance.Plain(t, v).(map[string]any))
	return all
}

func listed[T any](list []T, err error) (any, error) { return result{"items": list}, err }

// collect reads an iterator: take items, or all if take is 0.
func collect[T any](seq func(func(T, error) bool), take int) (any, error) {
	items := []T{}
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		if items = append(items, item); len(items) == take {
			break
		}
	}
	return result{"items": items}, nil
}

func batch(ctx context.Context, t *testing.T, c *waterclock.Client, a *args) (any, error) {
	t.Helper()
	var commands []*waterclock.Command
	for _, line := range a.Lines {
		commands = append(commands, batchLine(t, line, a.options()))
	}
	results, err := c.Batch(ctx, commands...)
	items := []any{}
	for _, r := range results {
		item := conformance.Plain(t, r).(map[string]any)
		if r.Err != nil {
			item["error"] = errorFields(r.Err)
		}
		items = append(items, item)
	}
	return result{"items": items}, err
}

func batchLine(t *testing.T, line map[string]any, opts []waterclock.Option) *waterclock.Command {
	t.Helper()
	line = maps.Clone(line)
	id, _ := line["id"].(string)
	op, _ := line["op"].(string)
	if rev, ok := line["if_revision"].(float64); ok {
		opts = append(opts, waterclock.IfRevision(int64(rev)))
		delete(line, "if_revision")
	}
	text := func(name string) string { v, _ := line[name].(string); return v }
	switch op {
	case "":
		delete(line, "id")
		raw, _ := json.Marshal(line)
		return waterclock.ScheduleCommand(id, register(t, raw), opts...)
	case "cancel":
		return waterclock.CancelCommand(id, opts...)
	case "pause":
		return waterclock.PauseCommand(id, text("note"), opts...)
	case "snooze":
		return waterclock.SnoozeCommand(id, waterclock.Snooze{For: text("for"), Until: text("until")}, opts...)
	case "run_now":
		return waterclock.RunCommand(id, opts...)
	case "reschedule":
		var w waterclock.When
		raw, _ := json.Marshal(line)
		if err := json.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		return waterclock.RescheduleCommand(id, w, opts...)
	}
	return &waterclock.Command{ID: id, Op: waterclock.Op(op)}
}

// commandOf returns the command for a call.
func commandOf(t *testing.T, name string, a *args) *waterclock.Command {
	t.Helper()
	opts := a.options()
	switch name {
	case "schedule":
		return waterclock.ScheduleCommand(a.ID, register(t, a.Trigger), opts...)
	case "cancel":
		return waterclock.CancelCommand(a.ID, opts...)
	case "reschedule":
		return waterclock.RescheduleCommand(a.ID, a.Time, opts...)
	case "snooze":
		return waterclock.SnoozeCommand(a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, opts...)
	case "skip":
		return waterclock.SkipCommand(a.ID, a.Occurrence, opts...)
	case "ack":
		return waterclock.AckCommand(a.ID, a.Occurrence, opts...)
	case "pause":
		return waterclock.PauseCommand(a.ID, a.Note, opts...)
	case "resume":
		return waterclock.ResumeCommand(a.ID, a.Note, opts...)
	case "run":
		return waterclock.RunCommand(a.ID, opts...)
	case "rezone":
		return waterclock.RezoneCommand(a.ID, a.Timezone, opts...)
	case "erase":
		return waterclock.EraseCommand(a.ID, opts...)
	}
	t.Fatalf("no command %q", name)
	return nil
}

// send calls the method of the producer.
func send(ctx context.Context, t *testing.T, p *producer.Producer, name string, a *args) error {
	t.Helper()
	opts := a.options()
	switch name {
	case "schedule":
		return p.Schedule(ctx, a.ID, register(t, a.Trigger), opts...)
	case "cancel":
		return p.Cancel(ctx, a.ID, opts...)
	case "reschedule":
		return p.Reschedule(ctx, a.ID, a.Time, opts...)
	case "snooze":
		return p.Snooze(ctx, a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, opts...)
	case "skip":
		return p.Skip(ctx, a.ID, a.Occurrence, opts...)
	case "ack":
		return p.Ack(ctx, a.ID, a.Occurrence, opts...)
	case "pause":
		return p.Pause(ctx, a.ID, a.Note, opts...)
	case "resume":
		return p.Resume(ctx, a.ID, a.Note, opts...)
	case "run":
		return p.Run(ctx, a.ID, opts...)
	case "rezone":
		return p.Rezone(ctx, a.ID, a.Timezone, opts...)
	case "erase":
		return p.Erase(ctx, a.ID, opts...)
	}
	t.Fatalf("no call %q by Kafka", name)
	return nil
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
