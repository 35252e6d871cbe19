package topics

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/schemas"
	"github.com/waterclock/waterclock/trigger"
)

// node is a schema as a tree, with the document its $refs point into.
type node struct {
	root, at map[string]any
}

func tree(t *testing.T, name string) node {
	var root map[string]any
	if err := json.Unmarshal([]byte(schemaText(t, name)), &root); err != nil {
		t.Fatal(err)
	}
	return node{root, root}
}

func (n node) to(v any) node {
	m, _ := v.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		m, _ = n.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	return node{n.root, m}
}

// names are the properties an object of this schema may have, those of its
// allOf included.
func (n node) names() (out []string) {
	properties, _ := n.at["properties"].(map[string]any)
	out = slices.Collect(maps.Keys(properties))
	all, _ := n.at["allOf"].([]any)
	for _, part := range all {
		out = append(out, n.to(part).names()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// property is the schema of a property, wherever it stands.
func (n node) property(name string) (node, bool) {
	if properties, _ := n.at["properties"].(map[string]any); properties[name] != nil {
		return n.to(properties[name]), true
	}
	all, _ := n.at["allOf"].([]any)
	for _, part := range all {
		if p, ok := n.to(part).property(name); ok {
			return p, true
		}
	}
	return node{}, false
}

// ops are the names a variant of the command schema is for.
func (n node) ops(t *testing.T) (out []string) {
	op, _ := n.property("op")
	if text, ok := op.at["const"].(string); ok {
		return []string{text}
	}
	list, _ := op.at["enum"].([]any)
	for _, v := range list {
		out = append(out, v.(string))
	}
	if len(out) == 0 {
		t.Fatalf("a variant without an op: %v", n.at)
	}
	return out
}

func sorted(list []string) []string { slices.Sort(list); return list }

// TestCommandSchemaIsGenerated: the file is what the table says.
func TestCommandSchemaIsGenerated(t *testing.T) {
	want, err := CommandSchema()
	if err != nil {
		t.Fatal(err)
	}
	if schemaText(t, "command.schema.json") != string(want) {
		t.Error("run go generate ./topics: schemas/command.schema.json is not what the table of fields says")
	}
}

// Each op has in the schema the fields it has in the decoder, and none more;
// so have the objects inside.
func TestCommandSchemaHasTheFieldsOfEachOp(t *testing.T) {
	s, found := tree(t, "command.schema.json"), map[string]node{}
	for _, variant := range s.at["oneOf"].([]any) {
		v := s.to(variant)
		for _, op := range v.ops(t) {
			found[op] = v
		}
	}
	for op, set := range fieldsOf {
		if trigger.Op(op) == 0 {
			continue
		}
		name := trigger.Op(op).String()
		var want []string
		for f, def := range fieldTable {
			if set.has(field(f)) && def.owner == 0 {
				want = append(want, def.name)
			}
		}
		if got := found[name].names(); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s: the schema has %v, the decoder %v", name, got, want)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		t.Errorf("ops only in the schema: %v", slices.Collect(maps.Keys(found)))
	}
	register := s.to(map[string]any{"$ref": "#/$defs/register"})
	for owner, byName := range fieldsByName {
		if owner == fOp {
			continue
		}
		object, ok := register.property(fieldTable[owner].name)
		if want := slices.Sorted(maps.Keys(byName)); !ok || !slices.Equal(object.names(), want) {
			t.Errorf("%s: the schema has %v, the decoder %v", fieldTable[owner].name, object.names(), want)
		}
	}
}

func TestCommandHeadersSchemaHasEveryHeader(t *testing.T) {
	want := slices.Sorted(maps.Keys(fieldsByHeader))
	if got := tree(t, "command-headers.schema.json").names(); !slices.Equal(got, want) {
		t.Errorf("the schema has %v, the decoder %v", got, want)
	}
}

// object is a record's headers as one, which is what the schemas of headers
// speak of.
func object(t *testing.T, hs []trigger.Header) []byte {
	m := map[string]string{}
	for _, h := range hs {
		m[h.Key] = string(h.Value)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func headerNames(hs []trigger.Header, without ...string) (out []string) {
	for _, h := range hs {
		if !slices.Contains(without, h.Key) {
			out = append(out, h.Key)
		}
	}
	return sorted(out)
}

// What we write has every header of the schema, and no other.
func TestHeaderSchemas(t *testing.T) {
	sent := *fullFire()
	sent.ReceiptBy, sent.Postponed = sent.Fired.Add(time.Hour), 1
	escalated := *sent.Spec
	escalated.Escalation = make([]trigger.Step, 2)
	sent.Spec = &escalated
	_, _, due := DueRecord(&sent, dueEnv)
	_, _, rejected := RejectedRecord(&Record{
		Topic: "waterclock.commands", Key: []byte("k"),
		Value: make([]byte, MaxRecordBytes),
	}, &trigger.Error{Code: trigger.CodeTooLarge, Field: "payload", Msg: "m"})
	_, _, keyed := RejectedRecord(&Record{Topic: "waterclock.commands", Key: make([]byte, trigger.MaxKeyBytes+1)},
		&trigger.Error{Code: trigger.CodeInvalidKey})
	batch := UnreadableBatch{Topic: "waterclock.commands", First: 81, Last: 83, Records: 3, Bytes: 2143, Codec: "zstd"}
	for _, h := range append(keyed, RejectedBatch(&batch, batch.Refusal(trigger.CodeTooLarge, "too large"))...) {
		if !slices.Contains(headerNames(rejected), h.Key) {
			rejected = append(rejected, h)
		}
	}
	big := &trigger.DeadLetter{Fire: *fullFire(), Code: "http_410", Detail: "gone"}
	_, _, cut := DeadLetterWithin(big, dueEnv, MinRecordBytes)
	if DeadLetterCut(&Record{Headers: cut}) {
		t.Error("what fits was cut")
	}
	spec := *big.Fire.Spec
	spec.Payload = make([]byte, MinRecordBytes)
	spec.Priority, spec.CorrelationID = trigger.High, "order-7"
	big.Fire.Spec, big.Fire.FirstFired = &spec, goldenFirstFired
	_, _, dead := DeadLetterWithin(big, dueEnv, MinRecordBytes)
	_, _, tz, err := EncodeTZData(TZData{Label: "2026a", Zip: []byte{1}, Carried: []string{"Europe/Kiev"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema  string
		headers []trigger.Header
		without []string
	}{
		{"due-headers.schema.json", due, []string{"x-a", "x-b"}},
		{"dead-letter-headers.schema.json", dead, headerNames(due)},
		{"rejected-headers.schema.json", rejected, nil},
		{"tzdata-headers.schema.json", tz, nil},
	} {
		if err := validate(schema(t, c.schema), object(t, c.headers)); err != nil {
			t.Errorf("%s: %v", c.schema, err)
		}
		if got, want := tree(t, c.schema).names(), headerNames(c.headers, c.without...); !slices.Equal(got, want) {
			t.Errorf("%s has %v, we write %v", c.schema, got, want)
		}
	}
}

// The error codes of the schema are those of package trigger.
func TestRejectedSchemaHasEveryCode(t *testing.T) {
	source, err := os.ReadFile("../trigger/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []any
	for _, m := range regexp.MustCompile(`Code = "(\w+)"`).FindAllSubmatch(source, -1) {
		want = append(want, string(m[1]))
	}
	code, _ := tree(t, "rejected-headers.schema.json").property("wc-error-code")
	if got := code.at["enum"]; len(want) < 25 || !reflect.DeepEqual(got, want) {
		t.Errorf("the schema has %v, the code %v", got, want)
	}
}

func TestReceiptSchemaHasEveryField(t *testing.T) {
	var want []string
	for f := range reflect.TypeFor[receiptJSON]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
	}
	if got := tree(t, "receipt.schema.json").names(); !slices.Equal(got, sorted(want)) {
		t.Errorf("the schema has %v, the decoder %v", got, want)
	}
}

// The golden files and the commands that people may have written are as the
// schemas say.
func TestGoldensKeepTheSchemas(t *testing.T) {
	for _, c := range []struct{ schema, golden string }{
		{"event.schema.json", "event-full"},
		{"event.schema.json", "event-bare"},
		{"event.schema.json", "event-base64"},
		{"event.schema.json", "event-rule"},
		{"event.schema.json", "event-rule-bare"},
		{"receipt.schema.json", "receipt"},
		{"calendar.schema.json", "calendar"},
		{"command.schema.json", "redrive"},
	} {
		if err := validate(schema(t, c.schema), readGolden(t, c.golden)); err != nil {
			t.Errorf("%s: %v", c.golden, err)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "commands", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		input, _, _ := strings.Cut(string(text), "\n----\n")
		rec := commandFile(input)
		_, refused := DecodeCommand(rec, Limits{}, nil)
		name, value := "command.schema.json", rec.Value
		if strings.HasPrefix(filepath.Base(file), "headers-") {
			name, value = "command-headers.schema.json", object(t, rec.Headers)
		}
		if err := validate(schema(t, name), value); (err == nil) != (refused == nil) {
			t.Errorf("%s: the schema says %v, the decoder %v", file, err, refused)
		}
	}
}

// The event that the page of events shows is one.
func TestEventOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/formats/events.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```json\n(.*?)```").FindSubmatch(page)
	if shown == nil {
		t.Fatal("the page shows no event")
	}
	if err := validate(schema(t, "event.schema.json"), shown[1]); err != nil {
		t.Error(err)
	}
	if e, err := DecodeEvent(shown[1]); err != nil || e.DuePartition == nil {
		t.Errorf("%+v, %v", e, err)
	}
}

// The schema of headers and the decoder agree.
func TestCommandHeadersSchema(t *testing.T) {
	s := schema(t, "command-headers.schema.json")
	for _, c := range []struct {
		ok      bool
		headers []string
	}{
		{true, []string{"wc-delay=7m", "wc-channel=orders", "x-a=1", "Wc=1", "w=2"}},
		{true, []string{"wc-fire-at=1800000000", "wc-callback-url=https://a.example/x", "wc-if-absent=true"}},
		{true, []string{
			"wc-recurrence=every:1h", "wc-count=3", "wc-timezone=Europe/Berlin", "wc-follow-user=true",
			"wc-user-id=u",
		}},
		{true, []string{"wc-op=cancel", "wc-if-revision=3"}},
		{true, []string{"wc-op=snooze", "wc-for=10m"}},
		{true, []string{"wc-op=pause", "wc-note=on leave"}},
		{false, []string{"wc-dealy=7m"}},
		{false, []string{"WC-delay=7m"}},
		{false, []string{"wc-payload=x", "wc-delay=7m"}},
		{false, []string{"wc-delay=soon"}},
		{false, []string{"wc-delay=7m", "wc-priority=urgent"}},
		{false, []string{"wc-delay=7m", "wc-if-absent=yes"}},
		{false, []string{"wc-delay=7m", "wc-if-revision=0"}},
		{false, []string{"wc-op=regster"}},
	} {
		hs := headers(c.headers...)
		if err := validate(s, object(t, hs)); (err == nil) != c.ok {
			t.Errorf("%v: the schema says %v", c.headers, err)
		}
		if _, err := DecodeCommand(&Record{Key: []byte("k"), Value: []byte("1"), Headers: hs, Timestamp: appended},
			Limits{}, nil); (err == nil) != c.ok {
			t.Errorf("%v: the decoder says %v", c.headers, err)
		}
	}
}

// Every schema is one, and says by which name it is served.
func TestSchemasAreSchemas(t *testing.T) {
	names, err := fs.Glob(schemas.FS, "*.schema.json")
	if err != nil || len(names) < 8 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		schema(t, name)
		if id := tree(t, name).at["$id"]; id != "https://waterclock.dev/schemas/"+name {
			t.Errorf("%s calls itself %v", name, id)
		}
	}
}
