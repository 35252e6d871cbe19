// Package conformance reads clients/conformance/cases.jsonl and compares results with what its
// cases expect. The README in that directory specifies the format.
package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Kinds lists all kinds of cases.
var Kinds = []string{"http", "wire", "command", "signature", "receipt", "due", "memory"}

// Case is one line of the file.
type Case struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Raw  json.RawMessage
}

// Cases returns the cases of the given kinds. It fails the test if the file has a kind that no
// runner handles, or no case of a given kind.
func Cases(t *testing.T, kinds ...string) []Case {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	f, err := os.Open(filepath.Join(filepath.Dir(here), "../../../conformance/cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	count := map[string]int{}
	var cases []Case
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		c := Case{Raw: json.RawMessage(strings.Clone(lines.Text()))}
		if err := json.Unmarshal(c.Raw, &c); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		if count[c.Kind]++; !contains(Kinds, c.Kind) {
			t.Fatalf("line %d: nobody runs kind %q", n, c.Kind)
		}
		if contains(kinds, c.Kind) {
			cases = append(cases, c)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if count[k] == 0 {
			t.Fatalf("no case of kind %q", k)
		}
	}
	return cases
}

func contains(list []string, v string) bool {
	for _, item := range list {
		if item == v {
			return true
		}
	}
	return false
}

// Decode decodes a case into to. A field that to does not have fails the test.
func (c Case) Decode(t *testing.T, to any) {
	t.Helper()
	Strict(t, c.Raw, to)
}

// Strict decodes JSON and fails the test on unknown fields.
func Strict(t *testing.T, raw json.RawMessage, to any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

// Vars maps the names in braces to their values.
type Vars map[string]string

// Expand replaces {run}, {tenant} and {saved.x} in every string.
func (v Vars) Expand(raw json.RawMessage) json.RawMessage {
	text := string(raw)
	for name, value := range v {
		quoted, _ := json.Marshal(value)
		text = strings.ReplaceAll(text, "{"+name+"}", string(quoted[1:len(quoted)-1]))
	}
	return json.RawMessage(text)
}

// Plain converts a value to the types of encoding/json: maps, slices, strings and numbers.
func Plain(t *testing.T, v any) any {
	t.Helper()
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	var to any
	if err := json.Unmarshal(raw, &to); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return to
}

// Match returns where got differs from want, or "" if it matches.
func Match(want, got any) string { return match("result", want, got) }

func match(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, v := range w {
			if d := match(at+"."+name, v, g[name]); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if (!ok && got != nil) || len(g) != len(w) {
			return fmt.Sprintf("%s is %v, want %d items", at, got, len(w))
		}
		for i := range w {
			if d := match(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		return matchText(at, w, got)
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

func matchText(at, want string, got any) string {
	ok := false
	text, isText := got.(string)
	name, arg, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(want, "{"), "}"), ":")
	if !strings.HasPrefix(want, "{") || !strings.HasSuffix(want, "}") {
		name = ""
	}
	switch name {
	case "any":
		ok = got != nil
	case "absent":
		ok = got == nil
	case "instant":
		_, err := time.Parse(time.RFC3339Nano, text)
		ok = isText && err == nil && strings.HasSuffix(text, "Z")
	case "re":
		ok = isText && regexp.MustCompile(arg).MatchString(text)
	case "len":
		list, isList := got.([]any)
		n, err := strconv.Atoi(arg)
		ok = err == nil && isList && len(list) == n
	case "not":
		ok = isText && text != arg
	case "has":
		var item any
		if err := json.Unmarshal([]byte(arg), &item); err != nil {
			return at + ": " + err.Error()
		}
		list, _ := got.([]any)
		for _, g := range list {
			ok = ok || Match(item, g) == ""
		}
	default:
		ok = isText && (text == want || sameInstant(text, want))
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("%s is %v, want %s", at, got, want)
}

// sameInstant compares instants, because a client may have parsed one into its own type.
func sameInstant(a, b string) bool {
	x, err := time.Parse(time.RFC3339Nano, a)
	y, err2 := time.Parse(time.RFC3339Nano, b)
	return err == nil && err2 == nil && x.Equal(y)
}

// Get returns a string field of an object.
func Get(v any, name string) string {
	m, _ := v.(map[string]any)
	text, _ := m[name].(string)
	return text
}
