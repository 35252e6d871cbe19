package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// description is /openapi.json as a reader has it.
var description = sync.OnceValue(func() *described {
	table := newRouteTable(&parts{})
	b, err := describe(table, true)
	if err != nil {
		panic(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return &described{table: table, doc: doc, compiler: c, known: map[string]*jsonschema.Schema{}}
})

type described struct {
	table    *routeTable
	doc      any
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	known    map[string]*jsonschema.Schema
}

func (d *described) at(path ...string) any {
	v := d.doc
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (d *described) schema(path ...string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range path {
		path[i] = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path[i])
	}
	pointer := "openapi.json#/" + strings.Join(path, "/")
	if s := d.known[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(pointer)
	d.known[pointer] = s
	return s, err
}

// conforms holds an answer against the description: every answer of every test
// passes here.
func (d *described) conforms(method, path string, a answer) error {
	if method == http.MethodHead || method == http.MethodOptions {
		return nil
	}
	path, _, _ = strings.Cut(path, "?")
	status := fmt.Sprint(a.status)
	r, _, _ := d.table.find(method, path)
	if r == nil {
		return d.isProblem(a)
	}
	op := []string{"paths", r.pattern, strings.ToLower(method), "responses"}
	if d.at(append(op, status)...) == nil {
		if a.status < 400 {
			return fmt.Errorf("status %s of %s %s is not described", status, method, r.pattern)
		}
		return d.isProblem(a)
	}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, _ := d.at(append(op, status, "content")...).(map[string]any)
	if content == nil {
		if a.body != "" {
			return fmt.Errorf("status %s of %s %s should have no body", status, method, r.pattern)
		}
		return nil
	}
	if content[kind] == nil {
		return fmt.Errorf("type %q of %s %s is not described", kind, method, r.pattern)
	}
	if kind == "application/x-ndjson" {
		return problemsAgree(a.body)
	}
	if kind != "application/json" {
		return nil
	}
	s, err := d.schema(append(op, status, "content", kind, "schema")...)
	if err != nil {
		return err
	}
	return validate(s, a.body)
}

func (d *described) isProblem(a answer) error {
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		return fmt.Errorf("status %d has type %q", a.status, kind)
	}
	s, err := d.schema("components", "schemas", "Problem")
	if err != nil {
		return err
	}
	if err := validate(s, a.body); err != nil {
		return err
	}
	return agrees([]byte(a.body))
}

// problemsAgree holds the problems among the lines of a batch's answer.
func problemsAgree(lines string) error {
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, `{"type":`) {
			if err := agrees([]byte(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// agrees says that a problem's type is its code.
func agrees(body []byte) error {
	var p problem.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Type != "urn:waterclock:problem:"+string(p.Code) {
		return fmt.Errorf("type %q of a problem with code %q", p.Type, p.Code)
	}
	return nil
}

func validate(s *jsonschema.Schema, body string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestEveryRouteIsDescribed(t *testing.T) {
	d := description()
	ids := map[string]bool{}
	for _, r := range d.table.all() {
		op := d.at("paths", r.pattern, strings.ToLower(r.method))
		if op == nil {
			t.Errorf("%s %s is not described", r.method, r.pattern)
			continue
		}
		if id, _ := d.at("paths", r.pattern, strings.ToLower(r.method), "operationId").(string); id == "" || ids[id] {
			t.Errorf("%s %s: operationId %q", r.method, r.pattern, id)
		} else {
			ids[id] = true
		}
	}
	for name := range d.at("components", "schemas").(map[string]any) {
		if _, err := d.schema("components", "schemas", name); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
}

// The routes of docs/api.md, but those of channels.
func TestContractRoutes(t *testing.T) {
	table := newRouteTable(&parts{})
	for _, line := range []string{
		"POST /v1/triggers", "PUT /v1/triggers/x", "GET /v1/triggers/x", "PATCH /v1/triggers/x",
		"DELETE /v1/triggers/x", "GET /v1/triggers",
		"POST /v1/triggers/x:snooze", "POST /v1/triggers/x:skip", "POST /v1/triggers/x:pause",
		"POST /v1/triggers/x:resume", "POST /v1/triggers/x:run",
		"POST /v1/triggers/x:rezone", "POST /v1/triggers/x:ack", "POST /v1/triggers/x:erase",
		"GET /v1/search", "GET /v1/lateness", "GET /v1/forecast", "GET /v1/live",
		"GET /v1/triggers/x/events", "GET /v1/triggers/x/occurrences", "GET /v1/triggers/x/explain", "POST /v1/preview",
		"POST /v1/triggers:batch",
		"POST /v1/reconcile",
		"GET /v1/upcoming", "GET /v1/partitions", "GET /v1/watermark",
		"GET /v1/calendars", "GET /v1/calendars/x", "PUT /v1/calendars/x",
		"DELETE /v1/calendars/x", "GET /v1/preferences/x", "PUT /v1/preferences/x",
		"GET /v1/users/x/notifications", "DELETE /v1/users/x", "GET /v1/users/x/erasure",
		"GET /schemas/x", "GET /healthz", "GET /readyz",
		"GET /metrics", "GET /openapi.json", "GET /asyncapi.json", "GET /docs", "POST /api/reminders",
		"GET /api/reminders", "POST /api/reminders/x/snooze",
		"PATCH /api/reminders/x", "DELETE /api/reminders/x",
	} {
		method, path, _ := strings.Cut(line, " ")
		if r, _, p := table.find(method, path); r == nil {
			t.Errorf("%s: %v", line, p)
		}
	}
}

// What the schema of a register allows, the decoder knows, and the other way
// round: a field only one of them knew would be a lie.
func TestRegisterSchemaIsTheDecoders(t *testing.T) {
	d := description()
	properties := d.at("components", "schemas", "Register", "properties").(map[string]any)
	for name := range properties {
		if name == "id" { // the path's, or taken out before
			continue
		}
		rec := topics.Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1m","` + name + `":null}`)}
		if name == "delay" {
			rec.Value = []byte(`{"op":"register","delay":"1m"}`)
		}
		if _, err := topics.DecodeCommand(&rec, topics.Limits{}, nil); err != nil {
			t.Errorf("the decoder does not take %s: %v", name, err)
		}
	}
	everything := []string{
		"delay", "fire_at", "timezone", "recurrence", "start", "until", "count", "include",
		"exclude", "dst", "calendars", "channel",
		"user_id", "payload", "payload_base64", "target_key", "headers", "tags", "priority", "jitter", "expires_after",
		"misfire", "follow_user",
		// docs/formats/commands.md
		"callback", "escalation", "correlation_id", "note", "if_revision", "if_absent", "idempotency_key",
	}
	for _, name := range everything {
		if properties[name] == nil {
			t.Errorf("the schema lacks %s", name)
		}
	}
	if n := len(properties); n != len(everything)+1 {
		t.Errorf("%d properties, want %d and id", n, len(everything))
	}
}

// Bodies that are taken fit the schema of the body.
func TestBodiesFitTheirSchemas(t *testing.T) {
	for _, c := range []struct{ schema, body string }{
		{"Register", `{"id":"a","delay":420}`},
		{"Register", `{"delay":"7m","payload":null,"user_id":null}`},
		{
			"Register",
			`{"fire_at":"2060-01-01T00:00","timezone":"UTC","dst":{"gap":"skip"},"calendars":{"names":["us"],"on":"skip"}}`,
		},
		{
			"Register",
			`{"delay":"1m","callback":{"url":"https://x.example","timeout":"5s","retry":["10s",30]},"headers":{"a":"b"}}`,
		},
		{"ShortForm", `{"callbackUrl":"https://x.example","payload":{"a":1},"delaySeconds":0.5}`},
		{"Patch", `{"payload":null,"timezone":"UTC"}`},
		{"SnoozeBody", `{"for":600}`},
		{"ReminderSnooze", `{"minutes":10}`},
		{"ReminderBody", `{"title":"a","body":"b","delay":"1m"}`},
		{"ReminderPatch", `{"skip":"2026-12-25"}`},
		{"PreviewBody", `{"recurrence":"every:15m","n":3,"after":1700000000}`},
	} {
		s, err := description().schema("components", "schemas", c.schema)
		if err == nil {
			err = validate(s, c.body)
		}
		if err != nil {
			t.Errorf("%s %s: %v", c.schema, c.body, err)
		}
	}
}

func TestStatusOfEveryCode(t *testing.T) {
	for _, c := range []struct {
		code trigger.Code
		want int
	}{
		{trigger.CodeInvalid, 422},
		{trigger.CodeInvalidKey, 422},
		{trigger.CodeUnknownField, 422},
		{trigger.CodeUnknownZone, 422},
		{trigger.CodeTooLarge, 413},
		{trigger.CodeNotFound, 404},
		{trigger.CodeAlreadyFired, 409},
		{trigger.CodeConflict, 409},
		{trigger.CodeIdempotencyConflict, 422},
		{trigger.CodeSuperseded, 409},
		{trigger.CodeQuotaExceeded, 429},
		{trigger.CodeOverloaded, 503},
		{trigger.CodeNotOwner, 503},
		{trigger.CodeUnsupported, 422},
		{trigger.CodeForbiddenURL, 422},
		{trigger.CodeDisputedRule, 422},
	} {
		p := problem.OfTrigger(&trigger.Error{Code: c.code})
		if p.Status != c.want {
			t.Errorf("%s: %d, want %d", c.code, p.Status, c.want)
		}
		if needs := slices.Contains([]int{429, 503}, c.want); needs != (p.RetryAfter > 0) {
			t.Errorf("%s: Retry-After %d", c.code, p.RetryAfter)
		}
	}
}

// The check itself must be able to fail.
func TestConformsCatches(t *testing.T) {
	d := description()
	kind := http.Header{"Content-Type": {"application/json"}}
	for _, c := range []struct {
		name, method, path string
		a                  answer
	}{
		{"a field too many", "POST", "/v1/triggers", answer{201, kind, `{"trigger_id":"a","extra":1}`}},
		{"a field missing", "DELETE", "/v1/triggers/a", answer{200, kind, `{"trigger_id":"a"}`}},
		{"another status", "DELETE", "/v1/triggers/a", answer{201, kind, `{"trigger_id":"a"}`}},
		{"another type", "GET", "/v1/triggers", answer{
			200,
			http.Header{"Content-Type": {"text/plain"}},
			`{"items":[]}`,
		}},
		{"an error that is no problem", "GET", "/v1/triggers", answer{404, kind, `{}`}},
		{
			"a type that is not the code", "GET", "/v1/triggers",
			answer{
				404,
				http.Header{"Content-Type": {"application/problem+json"}},
				`{"type":"urn:waterclock:problem:invalid","title":"Not Found","status":404,"code":"not_found"}`,
			},
		},
		{"null for a list", "GET", "/v1/triggers", answer{200, kind, `{"items":null}`}},
	} {
		if d.conforms(c.method, c.path, c.a) == nil {
			t.Errorf("%s: not noticed", c.name)
		}
	}
}
