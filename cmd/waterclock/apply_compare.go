package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// fieldChange is a field that differs, in the contract's spelling. "" means that the field is
// absent.
type fieldChange struct {
	Field string `json:"field"`
	Have  string `json:"have"`
	Want  string `json:"want"`
}

// compareSpecs lists the differences. Both specs come from the same decoder, so two spellings of
// the same value are equal here, as they are for the engine.
func compareSpecs(have, want *trigger.Spec) (all []fieldChange) {
	for _, f := range compared() {
		h, w := compareText(&f, have), compareText(&f, want)
		if f.Name == "start" && want.When.Start == "" {
			h = "" // the engine chose the start, because the register named none
		}
		if f.Name == "channel" && mayPrefer(want) && topics.MayPrefer(have.Channel) {
			h = w // the engine chose the user's preferred channel, because the register named none
		}
		if h != w {
			all = append(all, fieldChange{f.Name, h, w})
		}
	}
	return all
}

// mayPrefer reports whether a register leaves the channel to the preferences of its user.
func mayPrefer(s *trigger.Spec) bool {
	return s.Channel == topics.DefaultChannel && s.UserID != "" && len(s.Escalation) == 0
}

// compared returns the fields that a trigger keeps, those about time first. A payload has two
// fields (text and base64), of which it returns one.
func compared() []topics.Field {
	all := slices.DeleteFunc(topics.RegisterFields(), func(f topics.Field) bool {
		return !f.Kept || f.Name == "payload_base64"
	})
	when := slices.DeleteFunc(slices.Clone(all), func(f topics.Field) bool { return !f.When })
	return append(when, slices.DeleteFunc(all, func(f topics.Field) bool { return f.When })...)
}

// compareText returns a text for a field. Texts are equal if the values mean the same. The text
// of a default is "".
func compareText(f *topics.Field, s *trigger.Spec) string {
	if text := compareTexts[f.Name]; text != nil {
		return text(s)
	}
	value := f.Append(nil, s)
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// compareTexts has the fields that need their own comparison: either one meaning has several
// spellings, or a command spells them differently from an answer.
var compareTexts = map[string]func(*trigger.Spec) string{
	"recurrence": func(s *trigger.Spec) string { return strings.TrimPrefix(s.When.Recurrence, "RRULE:") },
	"fire_at":    fireAtText,
	"timezone": func(s *trigger.Spec) string {
		if s.When.Zone == "" && s.When.Kind == trigger.WhenRecurrence {
			return "UTC"
		}
		return s.When.Zone
	},
	"start":     func(s *trigger.Spec) string { return timeText(s.When.Start) },
	"until":     func(s *trigger.Spec) string { return timeText(s.When.Until) },
	"include":   func(s *trigger.Spec) string { return timesText(s.When.Include) },
	"exclude":   func(s *trigger.Spec) string { return timesText(s.When.Exclude) },
	"dst":       dstText,
	"calendars": calendarsText,

	"payload":       payloadText,
	"priority":      func(s *trigger.Spec) string { return s.Priority.String() },
	"misfire":       func(s *trigger.Spec) string { return s.Misfire.String() },
	"jitter":        func(s *trigger.Spec) string { return positive(s.Jitter) },
	"expires_after": func(s *trigger.Spec) string { return positive(s.Expires) },
	"tags": func(s *trigger.Spec) string {
		var pairs []string
		for _, t := range s.Tags {
			pairs = append(pairs, pairText(t.Key, t.Value))
		}
		return sortedText(pairs)
	},
	"headers": func(s *trigger.Spec) string {
		var pairs []string
		for _, h := range s.Headers {
			pairs = append(pairs, pairText(h.Key, string(h.Value)))
		}
		return sortedText(pairs)
	},
}

// pairText quotes what could be taken for two pairs.
func pairText(name, value string) string {
	if strings.ContainsAny(name+value, ",=\"") {
		return strconv.Quote(name) + "=" + strconv.Quote(value)
	}
	return name + "=" + value
}

func positive(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return d.String()
}

func fireAtText(s *trigger.Spec) string {
	switch s.When.Kind {
	case trigger.WhenInstant:
		return s.When.FireAt.String()
	case trigger.WhenLocal:
		return timeText(s.When.Local)
	}
	return ""
}

func dstText(s *trigger.Spec) string {
	gap, overlap := or(s.When.DST.Gap, "shift"), or(s.When.DST.Overlap, "first")
	if gap == "shift" && overlap == "first" {
		return ""
	}
	return "gap=" + gap + " overlap=" + overlap
}

func calendarsText(s *trigger.Spec) string {
	c := s.When.Calendars
	if c == nil {
		return ""
	}
	return strings.Join(c.Names, ",") + " on=" + or(c.On, calendar.OnSkip)
}

// timeText normalises a date-time: 09:00 becomes 09:00:00.
func timeText(s string) string {
	if w, err := calendar.ParseWall(s); err == nil {
		return w.String()
	}
	if ms, err := calendar.ParseInstant(s); err == nil {
		return trigger.Instant(ms).String()
	}
	return s
}

func timesText(list []string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = timeText(s)
	}
	return sortedText(texts)
}

func sortedText(list []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(list))), ",")
}

// payloadText encodes JSON with sorted names and no spaces, so that order and spaces do not count
// as differences. It encodes other bytes as base64.
func payloadText(s *trigger.Spec) string {
	dec := json.NewDecoder(bytes.NewReader(s.Payload))
	dec.UseNumber()
	var v any
	if len(s.Payload) == 0 {
		return ""
	}
	if !json.Valid(s.Payload) || dec.Decode(&v) != nil {
		return "base64:" + base64.StdEncoding.EncodeToString(s.Payload)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return string(s.Payload)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// hasTags reports whether a trigger carries all of these labels.
func hasTags(s *trigger.Spec, want map[string]string) bool {
	have := map[string]string{}
	for _, t := range s.Tags {
		have[t.Key] = t.Value
	}
	for _, name := range slices.Collect(maps.Keys(want)) {
		if v, ok := have[name]; !ok || v != want[name] {
			return false
		}
	}
	return true
}
