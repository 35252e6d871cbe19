package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/itchyny/gojq"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/waterclock/waterclock/internal/printable"
)

var outputFormats = []string{"table", "json", "ndjson"}

// output prints results in the chosen format. With --jq, a table becomes JSON, because a filter
// returns no columns.
type output struct {
	w        io.Writer
	format   string
	fallback string // the format if no flag was given
	filter   string
	code     *gojq.Code
}

// prepare validates the flags and compiles the filter.
func (o *output) prepare() error {
	if o.format == "" {
		o.format = o.fallback
	}
	if o.format == "" {
		o.format = "table"
	}
	known := false
	for _, f := range outputFormats {
		known = known || f == o.format
	}
	if !known {
		return usagef("-o %s: write table, json or ndjson", o.format)
	}
	return o.compile()
}

func (o *output) compile() error {
	if o.filter == "" {
		return nil
	}
	query, err := gojq.Parse(o.filter)
	if err == nil {
		o.code, err = gojq.Compile(query)
	}
	if err != nil {
		return usagef("--jq: %v", err)
	}
	if o.format == "table" {
		o.format = "json"
	}
	return nil
}

// record prints one object. As a table it prints one row per name and value, and leaves out empty
// values.
func (o *output) record(v any, rows [][2]string) error {
	if o.format != "table" {
		return o.json(v)
	}
	t := o.table()
	for _, r := range rows {
		if r[1] != "" {
			t.AppendRow(table.Row{r[0], clean(r[1])})
		}
	}
	_, err := fmt.Fprintln(o.w, trimRight(t.Render()))
	return err
}

// list prints several objects as a table with a header, as a JSON array, or as one JSON line
// each. items holds the JSON values in order. row returns the cells of one item.
func (o *output) list(items []any, header []string, row func(i int) []string) error {
	switch o.format {
	case "ndjson":
		for _, item := range items {
			if err := o.json(item); err != nil {
				return err
			}
		}
		return nil
	case "json":
		if items == nil {
			items = []any{}
		}
		return o.json(items)
	}
	t := o.table()
	t.AppendHeader(cells(header))
	for i := range items {
		t.AppendRow(cells(row(i)))
	}
	_, err := fmt.Fprintln(o.w, trimRight(t.Render()))
	return err
}

// item prints one object of a stream as soon as it arrives.
func (o *output) item(v any, line func() string) error {
	if o.format != "table" {
		return o.json(v)
	}
	_, err := fmt.Fprintln(o.w, clean(line()))
	return err
}

// json prints a value, or the results of the filter. Like jq -r, it prints strings without
// quotes.
func (o *output) json(v any) error {
	if o.code == nil {
		return o.encode(v)
	}
	plain, err := plainJSON(v)
	if err != nil {
		return err
	}
	for results := o.code.Run(plain); ; {
		result, ok := results.Next()
		if !ok {
			return nil
		}
		if err, failed := result.(error); failed {
			return failf("--jq: %v", err)
		}
		if err := o.filtered(result); err != nil {
			return err
		}
	}
}

func (o *output) filtered(result any) error {
	if s, ok := result.(string); ok {
		_, err := fmt.Fprintln(o.w, s)
		return err
	}
	b, err := gojq.Marshal(result)
	if err == nil {
		_, err = fmt.Fprintln(o.w, string(b))
	}
	return err
}

// encode writes JSON without HTML escapes. It indents for format json, and writes one line for
// ndjson.
func (o *output) encode(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if o.format == "json" {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err := o.w.Write(b.Bytes())
	return err
}

// plainJSON converts v into the types that gojq accepts: maps, slices, strings and numbers.
// Numbers keep their digits.
func plainJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	return out, nil
}

// table returns a table without borders, which people can read and cut(1) can split.
func (o *output) table() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Options = table.OptionsNoBordersAndSeparators
	t.SetStyle(style)
	return t
}

// trimRight removes the padding after the last column.
func trimRight(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, s := range texts {
		row[i] = clean(s)
	}
	return row
}

// clean makes a user's text safe for a terminal (see printable.Text). Everything that comes from
// a user must pass through it before it is printed.
func clean(s string) string { return printable.Text(s) }

// cleanLines does so with a text of our own that has several lines, and a user's text in it. It keeps
// line breaks, also those of the user's text: where that may have some, clean it first.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = clean(line)
	}
	return strings.Join(lines, "\n")
}

// anyOf converts a list for output.list.
func anyOf[T any](list []T) []any {
	all := make([]any, len(list))
	for i := range list {
		all[i] = list[i]
	}
	return all
}
