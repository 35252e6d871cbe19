package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func TestYAMLAsJSON(t *testing.T) {
	for _, row := range []struct{ name, yaml, want string }{
		{"dates stay text", "a: 2026-12-25\nb: 2026-11-20T09:00:00Z", `{"a":"2026-12-25","b":"2026-11-20T09:00:00Z"}`},
		{
			"numbers keep their digits", "a: 1.50\nb: 12345678901234567890\nc: -0",
			`{"a":1.50,"b":12345678901234567890,"c":-0}`,
		},
		{"numbers of YAML's own", "a: 0x1F\nb: 1_000\nc: .5", `{"a":31,"b":1000,"c":0.5}`},
		{"texts like numbers", "a: '7'\nb: \"1e3\"\nc: 7m", `{"a":"7","b":"1e3","c":"7m"}`},
		{"booleans and null", "a: true\nb: ~\nc: 'no'", `{"a":true,"b":null,"c":"no"}`},
		{"aliases", "a: &x {k: 1}\nb: *x", `{"a":{"k":1},"b":{"k":1}}`},
		{
			"merge yields to what is written", "a: &x {k: 1, l: 2}\nb: {k: 3, <<: *x}",
			`{"a":{"k":1,"l":2},"b":{"k":3,"l":2}}`,
		},
		{
			"the first of several merged wins", "a: &x {k: 1}\nb: &y {k: 2}\nc: {<<: [*x, *y]}",
			`{"a":{"k":1},"b":{"k":2},"c":{"k":1}}`,
		},
		{"lists", "a: [1, [], {}]", `{"a":[1,[],{}]}`},
		{"twice", "a: 1\na: 2", "error: line 2: a is given twice"},
		{"bytes", "a: !!binary aGk=", "error: line 1: write bytes as payload_base64"},
		{"not a number", "a: .nan", "error: line 1: .nan is not a JSON number"},
		{"a list as a name", "? [a]\n: 1", "error: line 1: a name must be a string"},
		{"merge of a text", "a: {<<: x}", "error: line 1: << can only merge mappings"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var doc yaml.Node
			if err := yaml.Unmarshal([]byte(row.yaml), &doc); err != nil {
				t.Fatal(err)
			}
			got := ""
			v, err := (&yamlReader{budget: maxYAMLNodes}).value(doc.Content[0])
			if err != nil {
				got = "error: " + err.Error()
			} else if b, err := json.Marshal(v); err == nil {
				got = string(b)
			}
			if got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestYAMLBomb(t *testing.T) {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10),
			","))
	}
	cli(t, nil, text, "apply", "-f", "-").want(t, exitUsage, "expands to over")
	for _, text := range []string{"- &x [*x]", "- &x {<<: *x, id: b}", "- &x {id: b, payload: {a: *x}}"} {
		cli(t, nil, text, "apply", "-f", "-").want(t, exitUsage, "does one contain itself?")
	}
}

func FuzzDeclared(f *testing.F) {
	f.Add("- id: a\n  delay: 7m\n")
	f.Add("id: a\nrecurrence: FREQ=DAILY\nstart: 2026-11-20T09:00\n---\nid: b\nfire_at: 1780000000\n")
	f.Add("- &x {id: a, delay: 1s}\n- {<<: *x, id: b}\n- *x\n")
	f.Add("{}\n---\n\n---\n[[]]")
	c, err := config.Load(config.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := newApp(stdio{in: strings.NewReader(text), out: io.Discard, err: io.Discard})
		list, err := a.readDeclared(c, []string{"-"})
		for _, d := range list {
			if err != nil || d.Key == "" || d.Spec == nil {
				t.Errorf("half a declaration came out: %+v, %v", d, err)
			}
		}
	})
}

func TestBadDeclarations(t *testing.T) {
	for _, row := range []struct{ name, yaml, want string }{
		{"no id", "- delay: 7m", "-:1: the id is missing"},
		{"id is a number", "- id: 7\n  delay: 7m", "the id is missing: write a string"},
		{"unknown field", "- id: a\n  delai: 7m", "-:2: trigger a: delai: \"delai\" is no field; did you mean delay?"},
		{"a part of a field", "- id: a\n  delay: 7m\n  callback:\n    uri: x", "-:3: trigger a: callback.uri:"},
		{"no time", "- id: a", "trigger a:"},
		{"bad rule", "- id: a\n  recurrence: FREQ=DAILY;BYDAY=MON", "recurrence:"},
		{"unknown zone", "- id: a\n  recurrence: FREQ=DAILY\n  timezone: Europe/Berlln", "Europe/Berlin"},
		{
			"an empty zone", "- id: a\n  recurrence: FREQ=DAILY\n  timezone: \"\"",
			"-:3: trigger a: timezone: timezone is empty",
		},
		{"another op", "- id: a\n  op: cancel", "only register"},
		{"a condition", "- id: a\n  delay: 7m\n  if_absent: true", "if_absent is not allowed"},
		{"twice", "- id: a\n  delay: 7m\n- id: a\n  delay: 8m", "-:3: trigger a is also declared at -:1"},
		{"a text", "hello", "a trigger is a mapping"},
		{"no YAML", "- id: a\n  delay: 7m\n   bad: x", "-:3: mapping values are not allowed"},
		{"a field twice", "- id: a\n  delay: 7m\n  delay: 8m", "-:3: delay is given twice"},
		{"all at once", "- id: a\n- delay: 1s", "-:2: the id is missing"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, row.yaml, "apply", "-f", "-").want(t, exitUsage, row.want)
		})
	}
	cli(t, nil, "", "apply").want(t, exitUsage, "name the file with -f")
	cli(t, nil, "", "apply", "-f", "/does/not/exist").want(t, exitUsage, "no such file")
	cli(t, nil, "", "apply", "-f", "-", "--prune").want(t, exitUsage, "--prune needs --tag")
	cli(t, nil, "", "apply", "-f", "-", "--tag", "a=b").want(t, exitUsage, "has no effect")
	for _, nothing := range []string{"", "[]", "# none left\n", "---\n"} {
		cli(t, nil, nothing, "apply", "-f", "-", "--prune", "--tag", "a=b").want(t, exitUsage,
			"- declares no triggers",
			"--allow-empty")
		cli(t, nil, nothing, "diff", "-f", "-", "--prune", "--tag", "a=b").want(t, exitUsage, "--allow-empty")
	}
	cli(t, nil, "", "apply", "-f", t.TempDir(), "--prune", "--tag", "a=b").want(t, exitUsage, "declares no triggers")
	cli(t, nil, "", "apply", "-f", "-", "--allow-empty").want(t, exitUsage, "has no effect")
	cli(t, nil, "- id: a\n  delay: 7m", "apply", "-f", "-", "--prune", "--tag", "a=b").want(t, exitUsage,
		"lacks the label")
}

func TestCompareSpecs(t *testing.T) {
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, have, want, differs string }{
		{
			"spaces and order of a payload", `{"delay":"7m","payload":{"a":1,"b":[2]}}`,
			`{"delay":"7m","payload":{"b":[2],"a":1}}`, "",
		},
		{
			"defaults", `{"delay":"7m","channel":"default","priority":"normal","misfire":"fire_once"}`,
			`{"delay":"7m"}`,
			"",
		},
		{
			"seconds of a wall time", `{"fire_at":"2026-11-20T09:00:00","timezone":"Asia/Tokyo"}`,
			`{"fire_at":"2026-11-20T09:00","timezone":"Asia/Tokyo"}`, "",
		},
		{
			"another wall time", `{"fire_at":"2027-03-14T03:30:00","timezone":"America/New_York"}`,
			`{"fire_at":"2027-03-14T02:31","timezone":"America/New_York"}`, "fire_at",
		},
		{
			"spellings of an instant", `{"fire_at":"2026-11-20T09:00:00Z"}`, `{"fire_at":"2026-11-20T10:00:00+01:00"}`,
			"",
		},
		{"prefix of a rule", `{"recurrence":"RRULE:FREQ=DAILY","timezone":"UTC"}`, `{"recurrence":"FREQ=DAILY"}`, ""},
		{
			"a start nobody asked for", `{"recurrence":"FREQ=DAILY","start":"2026-11-20T09:00"}`,
			`{"recurrence":"FREQ=DAILY"}`,
			"",
		},
		{
			"order of dates", `{"recurrence":"FREQ=DAILY","exclude":["2026-12-26","2026-12-25"]}`,
			`{"recurrence":"FREQ=DAILY","exclude":["2026-12-25","2026-12-26"]}`, "",
		},
		{
			"another start", `{"recurrence":"FREQ=DAILY","start":"2026-11-20T09:00"}`,
			`{"recurrence":"FREQ=DAILY","start":"2026-11-20T10:00"}`, "start",
		},
		{
			"a channel that the user prefers", `{"delay":"7m","user_id":"u","channel":"push"}`,
			`{"delay":"7m","user_id":"u"}`, "",
		},
		{"a channel without a user", `{"delay":"7m","channel":"push"}`, `{"delay":"7m"}`, "channel"},
		{
			"a channel of one's own", `{"delay":"7m","user_id":"u","channel":"push"}`,
			`{"delay":"7m","user_id":"u","channel":"sms"}`, "channel",
		},
		{"another delay", `{"delay":"7m"}`, `{"delay":"8m"}`, "delay"},
		{"another kind of time", `{"delay":"7m"}`, `{"fire_at":"2026-11-20T09:00:00Z"}`, "delay fire_at"},
		{"digits of a number", `{"delay":"7m","payload":1.5}`, `{"delay":"7m","payload":1.50}`, "payload"},
		{
			"content", `{"delay":"7m","tags":{"a":"b"},"jitter":"1m","user_id":"u"}`,
			`{"delay":"7m","headers":{"h":"v"},"priority":"high","expires_after":"1h"}`,
			"user_id headers tags priority jitter expires_after",
		},
		{
			"a callback's recheck", `{"delay":"7m","callback":{"url":"https://a.example/x"}}`,
			`{"delay":"7m","callback":{"url":"https://a.example/x","recheck":true}}`, "callback",
		},
		{
			"a callback's body", `{"delay":"7m","callback":{"url":"https://a.example/x"}}`,
			`{"delay":"7m","callback":{"url":"https://a.example/x","body":"raw"}}`, "callback",
		},
		{
			"one attempt and the default ones", `{"delay":"7m","callback":{"url":"https://a.example/x"}}`,
			`{"delay":"7m","callback":{"url":"https://a.example/x","retry":[]}}`, "callback",
		},
		{
			"spellings of a callback",
			`{"delay":"7m","callback":{"url":"https://a.example/x","timeout":"60s","body":"envelope"}}`,
			`{"delay":"7m","callback":{"url":"https://a.example/x","timeout":"1m","recheck":false}}`, "",
		},
		{
			"one tag that looks like two", `{"delay":"7m","tags":{"a":"1,b=2"},"headers":{"a":"1,b=2"}}`,
			`{"delay":"7m","tags":{"a":"1","b":"2"},"headers":{"a":"1","b":"2"}}`, "headers tags",
		},
		{
			"JSON with a brace too many", `{"delay":"7m","payload_base64":"eyJhIjoxfX0="}`,
			`{"delay":"7m","payload":{"a":1}}`, "payload",
		},
		{
			"policies", `{"recurrence":"FREQ=DAILY","dst":{"gap":"skip"},"count":3}`,
			`{"recurrence":"FREQ=DAILY","calendars":{"names":["us"]},"misfire":"skip"}`,
			"count dst calendars misfire",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			have, want := specFrom(t, c, row.have), specFrom(t, c, row.want)
			var names []string
			for _, f := range compareSpecs(have, want) {
				names = append(names, f.Field)
			}
			if got := strings.Join(names, " "); got != row.differs {
				t.Errorf("differs in %q, want %q", got, row.differs)
			}
		})
	}
}

func specFrom(t *testing.T, c *config.Config, fields string) *trigger.Spec {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(fields), &m); err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	for k, v := range m {
		given[k] = v
	}
	spec, err := specOf(c, "k", given)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// triggersAPI stores registers and returns them as the gateway does.
type triggersAPI struct {
	mu   sync.Mutex
	have map[string]map[string]any
}

func (f *triggersAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/v1/triggers/")
	have := f.have[key]
	switch {
	case r.URL.Path == aliveAt:
	case r.URL.Path == "/v1/triggers":
		items := []any{}
		for _, t := range f.have {
			if tags, _ := t["tags"].(map[string]any); t["state"] == "PENDING" &&
				r.URL.Query().Get("tag") == fmt.Sprintf("team:%v", tags["team"]) {
				items = append(items, t)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
	case r.Method == http.MethodPut:
		f.put(w, r, key)
	case have == nil:
		problemJSON(w, 404, "not_found", "no such trigger")
	case r.Method == http.MethodDelete:
		have["state"] = "CANCELLED"
		fallthrough
	default:
		_ = json.NewEncoder(w).Encode(have)
	}
}

func (f *triggersAPI) put(w http.ResponseWriter, r *http.Request, key string) {
	var t map[string]any
	if json.NewDecoder(r.Body).Decode(&t) != nil || key == "refused" {
		problemJSON(w, 422, "quota_exceeded", "too many")
		return
	}
	revision := 1.0
	if old := f.have[key]; old != nil {
		revision = old["revision"].(float64) + 1
	}
	t["trigger_id"], t["state"], t["revision"], t["next_fire_at"] = key, "PENDING", revision, "2030-01-01T00:00:00.000Z"
	if _, recurs := t["recurrence"]; recurs && t["timezone"] == nil {
		t["timezone"] = "UTC"
	}
	f.have[key] = t
	_ = json.NewEncoder(w).Encode(t)
}

func TestApplyOverHTTP(t *testing.T) {
	api := &triggersAPI{have: map[string]map[string]any{}}
	s := httptest.NewServer(api)
	defer s.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) result { return cli(t, nil, "", append(args, "--url", s.URL)...) }
	write("- id: tea\n  recurrence: FREQ=DAILY\n  tags: {team: care}\n- id: milk\n  delay: 7m\n  tags: {team: care}\n")
	run("diff", "-f", dir).want(t, exitFailed, "create", "tea", "milk")
	run("apply", "-f", dir).want(t, exitOK, "created")
	run("diff", "-f", dir).want(t, exitOK, "nothing differs")
	run("apply", "-f", dir, "-o", "json", "--jq", ".[].result").want(t, exitOK, "unchanged\nunchanged")
	write("id: tea\nrecurrence: FREQ=WEEKLY\ntags: {team: care}\n")
	run("diff", "-f", file, "--prune", "--tag", "team=care").want(t, exitFailed, "FREQ=DAILY", "FREQ=WEEKLY", "prune",
		"milk")
	run("diff", "-f", file, "-o", "json", "--jq", ".[0].fields[0].want").want(t, exitFailed, "FREQ=WEEKLY")
	if len(api.have) != 2 || api.have["tea"]["revision"] != 1.0 {
		t.Errorf("diff changed something: %v", api.have)
	}
	run("apply", "-f", file, "--prune", "--tag", "team=care").want(t, exitOK, "changed", "pruned")
	if api.have["milk"]["state"] != "CANCELLED" {
		t.Errorf("milk was not pruned: %v", api.have["milk"])
	}
	run("diff", "-f", file, "--prune", "--tag", "team=care").want(t, exitOK, "nothing differs")
	run("diff", "-f", t.TempDir(), "--prune", "--allow-empty", "--tag", "team=care").want(t, exitFailed, "prune")
	write("- id: refused\n  delay: 1s\n- id: fine\n  delay: 1s\n")
	run("apply", "-f", file).want(t, exitFailed, "quota_exceeded", "fine", "created")
	cli(t, nil, "", "diff", "-f", file, "--url", "http://"+nobody(t)).want(t, exitUsage, "no API answers")
}

// Brokers and API named in the same way: apply and diff go where schedule goes, to the brokers.
func TestApplyGoesToTheBrokers(t *testing.T) {
	f := newFakeAPI(t)
	env := []string{"WATERCLOCK_BROKERS=" + nobody(t), "WATERCLOCK_URL=" + f.URL}
	for _, args := range [][]string{{"apply", "-f", "-"}, {"diff", "-f", "-"}, {"schedule", "k", "--in", "7m"}} {
		if r := cli(t, env, "- id: k\n  delay: 7m\n", args...); r.code == exitOK || len(f.asked) > 0 {
			t.Errorf("%s: exit code %d, and the API was asked %q", args[0], r.code, f.asked)
		}
	}
}

// A filter that fails is an error, which diff tells from a difference by its exit code.
func TestDiffWithAFilterThatFails(t *testing.T) {
	s := httptest.NewServer(&triggersAPI{have: map[string]map[string]any{}})
	defer s.Close()
	cli(t, nil, "- id: k\n  delay: 7m\n", "diff", "-f", "-", "--url", s.URL, "--jq", ".[]|error").want(t, exitUsage)
}

// TestApplyWhatIsPrinted: list -o json can be applied, and what has ended does not come back to life
// without its content. A file may declare such a trigger anew, or leave it as it is.
func TestApplyWhatIsPrinted(t *testing.T) {
	ended := func(state string) map[string]any {
		return map[string]any{
			"trigger_id": state, "state": state, "revision": 2.0, "channel": "webhook", "delay": "7m",
			"created_at": "2026-11-27T10:00:00.000Z",
		}
	}
	api := &triggersAPI{have: map[string]map[string]any{
		"CANCELLED": ended("CANCELLED"), "FIRED": ended("FIRED"),
		"tea": {"trigger_id": "tea", "state": "PENDING", "revision": 1.0, "channel": "default", "delay": "7m"},
	}}
	s := httptest.NewServer(api)
	defer s.Close()
	run := func(text string, args ...string) result {
		return cli(t, nil, text, append(args, "-f", "-", "--url", s.URL)...)
	}
	printed, err := json.Marshal([]any{api.have["CANCELLED"], api.have["tea"], api.have["FIRED"]})
	if err != nil {
		t.Fatal(err)
	}
	r := run(string(printed), "diff")
	r.want(t, exitOK, "nothing differs")
	if !strings.Contains(r.err, "passed over 2 triggers") {
		t.Errorf("it says %q", r.err)
	}
	run(string(printed), "apply", "-o", "json", "--jq", `.[]|.trigger_id+" "+.result`).want(t, exitOK, "tea unchanged\n")
	if api.have["CANCELLED"]["state"] != "CANCELLED" || api.have["FIRED"]["state"] != "FIRED" {
		t.Errorf("it came back to life: %v", api.have)
	}

	const hook = "- id: %s\n  delay: %s\n  channel: webhook\n  callback: {url: 'https://a.example/x'}\n"
	run(fmt.Sprintf(hook, "CANCELLED", "7m"), "diff").want(t, exitFailed, "create")
	run(fmt.Sprintf(hook, "FIRED", "7m"), "diff").want(t, exitOK, "nothing differs")
	run(fmt.Sprintf(hook, "FIRED", "8m"), "diff").want(t, exitFailed, "change", "callback")
}

// A trigger whose payload the key may not read has a payload that nobody here knows. apply would delete it, and diff
// would call it different.
func TestApplyWithoutTheRightToReadPayloads(t *testing.T) {
	hidden := map[string]any{
		"trigger_id": "k", "state": "PENDING", "revision": 1.0, "channel": "default", "delay": "7m",
		"payload_hidden": true, "tags": map[string]any{"team": "care"},
	}
	api := &triggersAPI{have: map[string]map[string]any{"k": hidden}}
	s := httptest.NewServer(api)
	defer s.Close()
	printed, err := json.Marshal([]any{hidden})
	if err != nil {
		t.Fatal(err)
	}
	const file = "- {id: k, delay: 7m, payload: {a: 1}, tags: {team: care}}\n"
	for verb, code := range map[string]int{"apply": exitFailed, "diff": exitUsage} {
		cli(t, nil, string(printed), verb, "-f", "-", "--url", s.URL).want(t, exitUsage, "-:1: trigger k",
			"hidden from the key that printed it", "role reader")
		r := cli(t, nil, file, verb, "-f", "-", "--url", s.URL)
		r.want(t, code, "k: this key may not read its payload", "role writer")
		if r.out != "" {
			t.Errorf("%s prints %q", verb, r.out)
		}
	}
	if api.have["k"]["revision"] != 1.0 {
		t.Errorf("it was changed: %v", api.have["k"])
	}
	// What is not compared needs no payload: what is pruned, and what is over.
	other := "- {id: other, delay: 7m, tags: {team: care}}\n"
	cli(t, nil, other, "diff", "-f", "-", "--prune", "--tag", "team=care", "--url", s.URL).want(t, exitFailed, "prune")
	hidden["state"] = "CANCELLED"
	cli(t, nil, file, "diff", "-f", "-", "--url", s.URL).want(t, exitFailed, "create")
}

func TestApplyOverKafka(t *testing.T) {
	brokers := cluster(t)
	e := startEngine(t, brokers, func(string, map[string]any) []topics.Event {
		return []topics.Event{{Type: "trigger.registered", Revision: 4, State: "PENDING"}}
	})
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stand(t, brokers, "same", trigger.Pending, specFrom(t, c, `{"delay":"7m","tags":{"team":"care"}}`))
	stand(t, brokers, "other", trigger.Pending, specFrom(t, c, `{"delay":"9m","tags":{"team":"care"}}`))
	stand(t, brokers, "old", trigger.Pending, specFrom(t, c, `{"delay":"7m","tags":{"team":"care"}}`))
	stand(t, brokers, "done", trigger.Cancelled, specFrom(t, c, `{"delay":"7m","tags":{"team":"care"}}`))
	stand(t, brokers, "foreign", trigger.Pending, specFrom(t, c, `{"delay":"7m","tags":{"team":"x"}}`))
	text := "- &a {id: same, delay: 7m, tags: {team: care}}\n- {<<: *a, id: other}\n- {<<: *a, id: done}\n"
	run := func(verb string) result {
		return cli(t, nil, text, verb, "-f", "-", "--brokers", brokers, "--prune", "--tag", "team=care", "-o", "json",
			"--jq", `.[]|.trigger_id+" "+.result`)
	}
	want := map[string]string{
		"diff":  "other change\ndone create\nold prune\n",
		"apply": "same unchanged\nother changed\ndone created\nold pruned\n",
	}
	for verb, code := range map[string]int{"diff": exitFailed, "apply": exitOK} {
		if r := run(verb); r.code != code || r.out != want[verb] {
			t.Errorf("%s: exit code %d, printed\n%swant\n%s%s", verb, r.code, r.out, want[verb], r.err)
		}
	}
	if e.last() != `{"op":"cancel"}` {
		t.Errorf("the last command is %s, want the cancel of what is pruned", e.last())
	}
}

// stand writes a trigger to topic state like the engine.
func stand(t *testing.T, brokers, key string, status trigger.Status, spec *trigger.Spec) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	st := &trigger.State{Key: trigger.Key(key), Status: status, Revision: 3, Seq: 3, Spec: *spec}
	st.Series.At, st.Series.Local = 1_900_000_000_000, "2030-03-17T18:46:40["+or(spec.When.Zone, "UTC")+"]"
	value, err := topics.AppendState(nil, st)
	if err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: "waterclock.state", Key: []byte(key), Value: value}
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
