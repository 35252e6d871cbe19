package topics

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// These functions append the values of a Spec as JSON that DecodeCommand reads back. A
// missing value and a default append nothing.

func spellText(b []byte, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(b, s)
}

func spellNumber(b []byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(b, n, 10)
}

func spellBool(b []byte, v bool) []byte {
	if !v {
		return b
	}
	return append(b, "true"...)
}

func spellList(b []byte, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// spellDuration spells whole seconds as 1h30m, others in milliseconds.
func spellDuration(b []byte, d time.Duration) []byte {
	if d == 0 {
		return b
	}
	return appendString(b, DurationText(d))
}

// DurationText is a duration in a form that a command accepts: 1h30m, not 1h30m0s.
func DurationText(d time.Duration) string {
	if d%time.Second != 0 {
		return milliseconds(d)
	}
	return calendar.DurationText(d)
}

func spellPriority(b []byte, s *trigger.Spec) []byte {
	if s.Priority == trigger.Normal {
		return b
	}
	return appendString(b, s.Priority.String())
}

func spellMisfire(b []byte, s *trigger.Spec) []byte {
	if s.Misfire == trigger.FireOnce {
		return b
	}
	return appendString(b, s.Misfire.String())
}

func spellFireAt(b []byte, s *trigger.Spec) []byte {
	switch w := &s.When; w.Kind {
	case trigger.WhenInstant:
		return appendString(b, w.FireAt.String())
	case trigger.WhenLocal:
		return appendString(b, w.Local)
	}
	return b
}

func spellDST(b []byte, s *trigger.Spec) []byte {
	d := s.When.DST
	if d == (trigger.DST{}) {
		return b
	}
	return appendObject(b, member{"gap", spellText(nil, d.Gap)}, member{"overlap", spellText(nil, d.Overlap)})
}

func spellCalendars(b []byte, s *trigger.Spec) []byte {
	c := s.When.Calendars
	if c == nil {
		return b
	}
	return appendObject(b, member{"names", spellList(nil, c.Names)}, member{"on", spellText(nil, c.On)})
}

// spellPayload appends a JSON payload byte for byte.
func spellPayload(b []byte, s *trigger.Spec) []byte {
	if !payloadIsJSON(s.Payload) {
		return b
	}
	return append(b, s.Payload...)
}

func spellPayloadBase64(b []byte, s *trigger.Spec) []byte {
	if payloadIsJSON(s.Payload) {
		return b
	}
	return spellBase64(b, s.Payload)
}

func spellBase64(b, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"')
}

func payloadIsJSON(payload []byte) bool {
	return beginsJSON(payload) && jsontext.Value(payload).IsValid(jsontext.AllowDuplicateNames(true))
}

// spellHeaders appends the user's headers. Of several with one name it appends the last.
// Bytes that are not UTF-8 are lost.
func spellHeaders(b []byte, s *trigger.Spec) []byte {
	var list []member
	for i, h := range s.Headers {
		if !slices.ContainsFunc(s.Headers[i+1:], func(o trigger.Header) bool { return o.Key == h.Key }) {
			list = append(list, member{h.Key, appendString(nil, string(h.Value))})
		}
	}
	return appendByName(b, list)
}

func spellTags(b []byte, s *trigger.Spec) []byte {
	var list []member
	for _, t := range s.Tags {
		list = append(list, member{t.Key, appendString(nil, t.Value)})
	}
	return appendByName(b, list)
}

func spellCallback(b []byte, s *trigger.Spec) []byte {
	c := s.Callback
	if c == nil {
		return b
	}
	var retry []byte
	if c.Retry != nil {
		retry = append(retry, '[')
		for i, wait := range c.Retry {
			if i > 0 {
				retry = append(retry, ',')
			}
			retry = appendString(retry, milliseconds(wait))
		}
		retry = append(retry, ']')
	}
	var body []byte
	if c.Raw {
		body = appendString(nil, bodyRaw)
	}
	return appendObject(b, member{"url", appendString(nil, c.URL)}, member{"timeout", spellDuration(nil, c.Timeout)},
		member{"retry", retry}, member{"body", body}, member{"recheck", spellBool(nil, c.Recheck)})
}

// member is a member of a JSON object. Without a value it is left out.
type member struct {
	name  string
	value []byte
}

func appendByName(b []byte, list []member) []byte {
	if len(list) == 0 {
		return b
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return appendObject(b, list...)
}

// appendMember appends a member of an object that began at an offset; nothing if its value is
// spelled as nothing.
func appendMember(b []byte, begin int, name string, spell func(b []byte) []byte) []byte {
	before := len(b)
	if before > begin {
		b = append(b, ',')
	}
	b = append(appendString(b, name), ':')
	value := len(b)
	if b = spell(b); len(b) == value {
		return b[:before]
	}
	return b
}

func appendObject(b []byte, list ...member) []byte {
	b = append(b, '{')
	begin := len(b)
	for _, m := range list {
		b = appendMember(b, begin, m.name, func(b []byte) []byte { return append(b, m.value...) })
	}
	return append(b, '}')
}
