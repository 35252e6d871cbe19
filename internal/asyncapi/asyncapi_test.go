package asyncapi

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waterclock/waterclock/schemas"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func document(t *testing.T, o Options) (text []byte, d object) {
	text, err := Document(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return text, d
}

func TestFileIsWhatWeGenerate(t *testing.T) {
	want, _ := document(t, Options{})
	if got, err := os.ReadFile("../../schemas/asyncapi.json"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("run go generate ./internal/asyncapi: schemas/asyncapi.json is not what the code says (%v)", err)
	}
}

// Every topic of the catalogue is a channel with its settings, and no other.
func TestEveryTopicIsAChannel(t *testing.T) {
	_, d := document(t, Options{Names: topics.Names{Prefix: "x."}, Partitions: 5, Replication: 3})
	want := map[string]topics.Topic{}
	for _, topic := range topics.Catalogue(topics.Names{Prefix: "x."}, 5, 3, []string{"{channel}", "{channel}.high"}) {
		want[topic.Name] = topic
	}
	for id, c := range within(d, "channels") {
		ch := c.(object)
		topic, ok := want[ch["address"].(string)]
		if !ok {
			t.Errorf("channel %s is no topic of the catalogue: %v", id, ch["address"])
			continue
		}
		delete(want, topic.Name)
		kafka := within(ch, "bindings", "kafka")
		settings := within(kafka, "topicConfiguration")
		if kafka["partitions"] != float64(topic.Partitions) || kafka["replicas"] != 3.0 ||
			len(settings) != len(topic.Configs) || settings["min.insync.replicas"] != 2.0 {
			t.Errorf("%s: %v, the catalogue has %+v", id, kafka, topic)
		}
	}
	if len(want) > 0 {
		t.Errorf("topics without a channel: %v", want)
	}
	if len(within(d, "operations")) != len(within(d, "channels")) {
		t.Error("not every channel has its operation")
	}
}

// shown is one example of one message.
type shown struct {
	message string
	name    string
	payload []byte
	headers []byte // nil: none
	record  *topics.Record
}

func examplesOf(t *testing.T, d object) (list []shown) {
	for name, m := range within(d, "components", "messages") {
		all, _ := m.(object)["examples"].([]any)
		for _, one := range all {
			e := one.(object)
			s := shown{
				message: name, name: e["name"].(string),
				record: &topics.Record{Topic: "t", Key: []byte("hold-8c4"), Timestamp: begin},
			}
			s.payload, _ = json.Marshal(e["payload"])
			if e["payload"] != nil {
				s.record.Value = s.payload
			}
			if hs, ok := e["headers"].(object); ok {
				s.headers, _ = json.Marshal(hs)
				for k, v := range hs {
					s.record.Headers = append(s.record.Headers, trigger.Header{Key: k, Value: []byte(v.(string))})
				}
			}
			list = append(list, s)
		}
	}
	if len(list) < 15 {
		t.Fatalf("only %d examples", len(list))
	}
	return list
}

// What the document shows is what the decoders read.
func TestExamplesDecode(t *testing.T) {
	_, d := document(t, Options{})
	decode := map[string]func(*topics.Record) error{
		"command": func(r *topics.Record) error {
			_,
				err := topics.DecodeCommand(r, topics.Limits{}, nil)
			return err
		},
		"receipt":         func(r *topics.Record) error { _, err := topics.DecodeReceipt(r); return err },
		"dueEvent":        func(r *topics.Record) error { _, err := topics.DecodeDue(r); return err },
		"deadLetter":      func(r *topics.Record) error { _, err := topics.DecodeDeadLetter(r); return err },
		"event":           func(r *topics.Record) error { _, err := topics.DecodeEvent(r.Value); return err },
		"rejectedCommand": func(*topics.Record) error { return nil }, // it stands there because it does not decode
		"calendar": func(r *topics.Record) error {
			r.Key = []byte("calendar/x")
			_, err := topics.DecodeSetting(r)
			return err
		},
		"endpoint": func(r *topics.Record) error {
			_, err := topics.DecodeEndpoint([]byte("host-1/acme/https://hooks.example.com"), r.Value)
			return err
		},
		"watermark": func(r *topics.Record) error {
			_, err := topics.DecodeWatermark([]byte("3"), r.Value)
			return err
		},
		"audit": func(r *topics.Record) error {
			_, err := topics.DecodeAudit([]byte("acme"), r.Value)
			return err
		},
		"commandInHeaders": nil, "cancel": nil,
	}
	decode["commandInHeaders"], decode["cancel"] = decode["command"], decode["command"]
	for _, e := range examplesOf(t, d) {
		if err := decode[e.message](e.record); err != nil {
			t.Errorf("%s, %s: %v", e.message, e.name, err)
		}
	}
}

// compiled is a schema inside the document, as draft 7.
func compiled(t *testing.T, d object, pointer string) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	if err := c.AddResource("asyncapi.json", d); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("asyncapi.json#" + pointer)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keeps(s *jsonschema.Schema, value []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestExamplesKeepTheSchemas(t *testing.T) {
	_, d := document(t, Options{})
	for _, e := range examplesOf(t, d) {
		m := within(d, "components", "messages", e.message)
		for part, value := range map[string][]byte{"payload": e.payload, "headers": e.headers} {
			if m[part] == nil {
				if part == "headers" && e.headers != nil {
					t.Errorf("%s, %s: headers without a schema", e.message, e.name)
				}
				continue
			}
			if err := keeps(compiled(t, d, "/components/messages/"+e.message+"/"+part), value); err != nil {
				t.Errorf("%s, %s: %s: %v", e.message, e.name, part, err)
			}
		}
	}
}

// The schemas of the document say what those in package schemas say, also of
// what is wrong: drafts differ in what $ref and allOf let pass.
func TestDraftsAgree(t *testing.T) {
	_, d := document(t, Options{})
	for _, c := range []struct{ schema, value string }{
		{"command", `{"op":"register","delay":"7m","payload":{"a":1},"tags":{"a":"1"},"headers":{"x":"1"}}`},
		{"command", `{"op":"register","delay":"7m","dealy":1}`},
		{"command", `{"op":"register"}`},
		{"command", `{"op":"register","delay":"7m","headers":{"wc-op":"x"}}`},
		{"command", `{"op":"register","delay":"7m","tags":{"a:b":"1"}}`},
		{"command", `{"op":"register","delay":"7m","tags":{"a":1}}`},
		{"command", `{"op":"register","delay":"7m","payload":1,"payload_base64":"AA=="}`},
		{"command", `{"op":"cancel","if_revision":3}`},
		{"command", `{"op":"cancel","delay":"7m"}`},
		{"command", `{"op":"cancel","if_revision":"3"}`},
		{"command", `{"op":"snooze","for":"7m","until":1800000000}`},
		{"command", `{"op":"rezone"}`},
		{"command", `{"op":"regster"}`},
		{"command-headers", `{"wc-delay":"7m","x":"y"}`},
		{"command-headers", `{"wc-dealy":"7m"}`},
		{"receipt", `{"due_id":"k@x#0","outcome":"sent"}`},
		{"due-headers", `{"ce_specversion":"1.0"}`},
		{"event", `{"type":"trigger.lost"}`},
		{"calendar", `{"dates":["2026-12-25"],"more":1}`},
	} {
		compiler := jsonschema.NewCompiler()
		text, err := schemas.FS.ReadFile(c.schema + ".schema.json")
		if err != nil {
			t.Fatal(err)
		}
		root, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("ours.json", root); err != nil {
			t.Fatal(err)
		}
		ours, theirs := keeps(compiler.MustCompile("ours.json"), []byte(c.value)),
			keeps(compiled(t, d, "/components/schemas/"+c.schema), []byte(c.value))
		if (ours == nil) != (theirs == nil) {
			t.Errorf("%s %s: the schema says %v, the document %v", c.schema, c.value, ours, theirs)
		}
	}
}

// No reference leaves the document or leads nowhere, and no keyword of a later
// draft is left.
func TestStandsAlone(t *testing.T) {
	_, d := document(t, Options{})
	var walk func(path []string, v any)
	walk = func(path []string, v any) {
		switch v := v.(type) {
		case object:
			if to, ok := v["$ref"].(string); ok {
				names, inside := strings.CutPrefix(to, "#/")
				var at any = d
				for _, name := range strings.Split(names, "/") {
					m, _ := at.(object)
					at = m[name]
				}
				if !inside || at == nil {
					t.Errorf("%s refers to %s", strings.Join(path, "/"), to)
				}
			}
			for k, sub := range v {
				if slices.Contains([]string{"$defs", "unevaluatedProperties", "$schema", "$id"}, k) {
					t.Errorf("%s has %s", strings.Join(path, "/"), k)
				}
				walk(append(path[:len(path):len(path)], k), sub)
			}
		case []any:
			for _, sub := range v {
				walk(path, sub)
			}
		}
	}
	walk(nil, d)
}
