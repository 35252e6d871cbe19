package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestOutput(t *testing.T) {
	v := map[string]any{"a": "<x>", "n": 12345678901234567}
	for _, row := range []struct{ name, format, filter, want string }{
		{"json for people", "json", "", "{\n  \"a\": \"<x>\",\n  \"n\": 12345678901234567\n}\n"},
		{"a line", "ndjson", "", "{\"a\":\"<x>\",\"n\":12345678901234567}\n"},
		{"table", "table", "", "a  <x>\nb  \\x1b[2J\n"},
		{"text bare", "json", ".a", "<x>\n"},
		{"digits kept", "ndjson", ".n", "12345678901234567\n"},
		{"several results", "table", ".a, .n", "<x>\n12345678901234567\n"},
		{"none", "json", "empty", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var b bytes.Buffer
			o := &output{w: &b, format: row.format, filter: row.filter}
			if err := o.prepare(); err != nil {
				t.Fatal(err)
			}
			if err := o.record(v, [][2]string{{"a", "<x>"}, {"empty", ""}, {"b", "\x1b[2J"}}); err != nil {
				t.Fatal(err)
			}
			if b.String() != row.want {
				t.Errorf("got %q, want %q", b.String(), row.want)
			}
		})
	}
}

func TestOutputFilterFails(t *testing.T) {
	o := &output{w: &bytes.Buffer{}, format: "json", filter: ".a.b"}
	if err := o.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := o.json(map[string]any{"a": 1}); exitOf(err) != exitFailed {
		t.Errorf("got %v, want a failure", err)
	}
}

func TestEmptyList(t *testing.T) {
	for format, want := range map[string]string{"json": "[]\n", "ndjson": "", "table": "A  B\n"} {
		var b bytes.Buffer
		o := &output{w: &b, format: format}
		if err := o.list(nil, []string{"a", "b"}, nil); err != nil || b.String() != want {
			t.Errorf("%s: got %q, %v; want %q", format, b.String(), err, want)
		}
	}
}

// What nobody sees, or what turns a line around, is an escape in errors and notes, too.
func TestHiddenCharactersInMessages(t *testing.T) {
	var errs bytes.Buffer
	run(t.Context(), []string{"list", "--a\u202eb\u200b"}, stdio{out: io.Discard, err: &errs})
	newApp(stdio{err: &errs}).note("one %s\ntwo", "a\u2066b\x1b[2J")
	for _, want := range []string{`--a\u202eb\u200b`, `one a\u2066b\x1b[2J` + "\ntwo\n"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it says %q, want %q in it", errs.String(), want)
		}
	}
}
