package topics

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// What is content and what is not (docs/SEMANTICS.md).
func TestContentHash(t *testing.T) {
	hash := func(rec *Record) trigger.Hash {
		c, err := DecodeCommand(rec, Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	base := hash(register(`"delay":"7m","payload":1`))
	for _, c := range []struct {
		name string
		rec  *Record
		same bool
	}{
		{"white space", register(` "payload" : 1 , "delay" : "7m"`), true},
		{
			"tracing, correlation and conditions",
			command(`{"op":"register","delay":"7m","payload":1,"correlation_id":"c","idempotency_key":"i","if_revision":3,"actor":"a"}`,
				"traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate=b", "baggage=c",
				"ce_id=d", "wcx-origin=0/0"), true,
		},
		{"the same delay in other words", register(`"delay":"420s","payload":1`), false},
		{"payload", register(`"delay":"7m","payload":2`), false},
		{"payload, spaced", register(`"delay":"7m","payload":{"a": 1}`), false},
		{"channel", register(`"delay":"7m","payload":1,"channel":"push"`), false},
		{"user header", command(`{"op":"register","delay":"7m","payload":1}`, "a=1"), false},
		{"tag", register(`"delay":"7m","payload":1,"tags":{"a":"1"}`), false},
		{"user", register(`"delay":"7m","payload":1,"user_id":"u"`), false},
	} {
		if got := hash(c.rec); (got == base) != c.same {
			t.Errorf("%s: hash %x, base %x, want the same: %v", c.name, got, base, c.same)
		}
	}
}

// The page has every number under which something is hashed, and no other.
func TestContentHashIsDocumented(t *testing.T) {
	hashed := map[string]bool{}
	calls := regexp.MustCompile(`\bh\.(?:text|data|number|flag|items?)\((\d+),`)
	for _, file := range []string{"1_commands_hash.go", "1_commands_table.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(source), -1) {
			hashed[call[1]] = true
		}
	}
	page, err := os.ReadFile("../docs/formats/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| no. | value |")
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]bool{}
	for _, cell := range regexp.MustCompile(`(?m)(?:^|[^|] )\| (\d+(?:, \d+)?) \|`).FindAllStringSubmatch(table, -1) {
		for number := range strings.SplitSeq(cell[1], ", ") {
			documented[number] = true
		}
	}
	if len(hashed) < 30 {
		t.Errorf("only %d numbers are in the source", len(hashed))
	}
	for number := range hashed {
		if !documented[number] {
			t.Errorf("%s is hashed, and not in docs/formats/commands.md", number)
		}
	}
	for number := range documented {
		if !hashed[number] {
			t.Errorf("%s is in docs/formats/commands.md, and not hashed", number)
		}
	}
}

// No two specs that differ may be taken for one because of where their parts
// are cut.
func TestContentHashHasNoSeams(t *testing.T) {
	specs := map[string]*trigger.Spec{
		"tags a=bc":     {Tags: []trigger.Tag{{Key: "a", Value: "bc"}}},
		"tags ab=c":     {Tags: []trigger.Tag{{Key: "ab", Value: "c"}}},
		"tags a=b, c=d": {Tags: []trigger.Tag{{Key: "a", Value: "b"}, {Key: "c", Value: "d"}}},
		// 40 and 41, as a tag's parts are numbered
		"tag a=b(c)d":       {Tags: []trigger.Tag{{Key: "a", Value: "b(c)d"}}},
		"include, exclude":  {When: trigger.When{Include: []string{"a"}, Exclude: []string{"b"}}},
		"include both":      {When: trigger.When{Include: []string{"a", "b"}}},
		"headers a=b":       {Headers: headers("a=b")},
		"tags a=b":          {Tags: []trigger.Tag{{Key: "a", Value: "b"}}},
		"user":              {UserID: "a"},
		"channel":           {Channel: "a"},
		"retry none":        {Callback: &trigger.Callback{URL: "u", Retry: []time.Duration{}}},
		"retry by profile":  {Callback: &trigger.Callback{URL: "u"}},
		"retry 1s":          {Callback: &trigger.Callback{URL: "u", Retry: []time.Duration{time.Second}}},
		"timeout 1s":        {Callback: &trigger.Callback{URL: "u", Timeout: time.Second}},
		"headers twice a b": {Headers: headers("a=1", "a=2")},
		"headers twice b a": {Headers: headers("a=2", "a=1")},
	}
	seen := map[trigger.Hash]string{}
	for name, s := range specs {
		h := contentHash(s)
		if other, ok := seen[h]; ok {
			t.Errorf("%s hashes as %s", name, other)
		}
		seen[h] = name
	}
}
