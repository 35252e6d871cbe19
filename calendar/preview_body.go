package calendar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/internal/near"
)

// parsePreview reads a body strictly: one JSON object, known fields, each once.
func parsePreview(body []byte, calendars CalendarSource) (*PreviewRequest, error) {
	q := &PreviewRequest{N: previewDefaultN, given: map[string]bool{}}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return q, fail(CodeInvalid, "", "the body is not a JSON object")
	}
	var first error // go on after an error: the id may stand behind it
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return q, fail(CodeInvalid, "", "the body is not JSON: %v", err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return q, fail(CodeInvalid, "", "the body is not JSON: %v", err)
		}
		if err := q.set(t.(string), raw, calendars); err != nil && first == nil {
			first = err
		}
	}
	if _, err := dec.Token(); err != nil {
		return q, fail(CodeInvalid, "", "the body is not JSON: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return q, fail(CodeInvalid, "", "there is text after the JSON object; send one object")
	}
	return q, first
}

var previewFields = []string{
	"id", "fire_at", "recurrence", "delay", "start", "timezone", "include", "exclude",
	"until", "count", "dst", "calendars", "after", "n",
}

// set reads one field. null counts as absent.
func (q *PreviewRequest) set(name string, raw json.RawMessage, calendars CalendarSource) error {
	if !slices.Contains(previewFields, name) {
		return fail(CodeUnknownField, name, "%s is not a field%s", clip(name), near.Hint(name, previewFields))
	}
	if string(raw) == "null" {
		return nil
	}
	if q.given[name] {
		return fail(CodeInvalid, name, "%s is given twice", name)
	}
	q.given[name] = true
	texts := map[string]*string{
		"recurrence": &q.Recurrence, "start": &q.Start, "timezone": &q.Timezone,
		"until": &q.Until,
	}
	numbers := map[string]*string{"fire_at": &q.FireAt, "delay": &q.Delay, "after": &q.After}
	switch to := texts[name]; {
	case to != nil:
		return readText(to, raw, name, false)
	case numbers[name] != nil:
		return readText(numbers[name], raw, name, true)
	}
	switch name {
	case "id":
		q.ID = raw
		return nil
	case "include":
		return readTexts(&q.Include, raw, name)
	case "exclude":
		return readTexts(&q.Exclude, raw, name)
	case "count":
		return readWhole(&q.Count, raw, name, 1<<40)
	case "n":
		return readWhole(&q.N, raw, name, PreviewMaxN)
	case "dst":
		return q.readDST(raw)
	}
	return q.readCalendars(raw, calendars)
}

// readText reads a JSON string; with number also a plain JSON number.
func readText(to *string, raw json.RawMessage, field string, number bool) error {
	if number && len(raw) > 0 && raw[0] >= '0' && raw[0] <= '9' {
		plain, ok := PlainNumber(string(raw))
		if *to = plain; !ok {
			return fail(CodeInvalid, field, "%s is out of range", clip(plain))
		}
		return nil
	}
	if json.Unmarshal(raw, to) != nil {
		return fail(CodeInvalid, field, "%s is not a string", clip(string(raw)))
	}
	if *to == "" && field != "timezone" && field != "recurrence" {
		return fail(CodeInvalid, field, "is empty")
	}
	return nil
}

func readTexts(to *[]string, raw json.RawMessage, field string) error {
	if json.Unmarshal(raw, to) != nil {
		return fail(CodeInvalid, field, "is not a list of strings")
	}
	return nil
}

func readWhole(to *int, raw json.RawMessage, field string, most int) error {
	if json.Unmarshal(raw, to) != nil || *to < 1 || *to > most {
		return fail(CodeInvalid, field, "is %s; write a whole number from 1 to %d", clip(string(raw)), most)
	}
	return nil
}

func (q *PreviewRequest) readDST(raw json.RawMessage) error {
	var d struct {
		Gap     string `json:"gap"`
		Overlap string `json:"overlap"`
	}
	if err := strict(raw, &d); err != nil {
		return fail(CodeInvalid, "dst", `is not {"gap":"shift|skip","overlap":"first|second|both"}: %v`, err)
	}
	var err error
	q.DST, err = ParseDST(d.Gap, d.Overlap)
	return err
}

func (q *PreviewRequest) readCalendars(raw json.RawMessage, source CalendarSource) error {
	c := struct {
		Names []string `json:"names"`
		On    string   `json:"on"`
	}{On: OnSkip}
	if err := strict(raw, &c); err != nil {
		return fail(CodeInvalid, "calendars", `is not {"names":["…"],"on":"skip"}: %v`, err)
	}
	switch {
	case len(c.Names) == 0:
		return fail(CodeInvalid, "calendars", "names no calendar")
	case len(c.Names) > MaxCalendars:
		return fail(CodeInvalid, "calendars", "names %d calendars; at most %d may be named", len(c.Names), MaxCalendars)
	}
	q.Calendars = &CalendarRule{Names: c.Names, On: c.On}
	for _, name := range c.Names {
		if source == nil {
			return fail(CodeUnsupported, "calendars",
				"named calendars are not available here; write the dates in exclude")
		}
		set, ok := source(name)
		if !ok {
			return fail(CodeInvalid, "calendars", "there is no calendar %s", clip(name))
		}
		q.Calendars.Sets = append(q.Calendars.Sets, set)
	}
	return nil
}

func strict(raw json.RawMessage, to any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(to)
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
