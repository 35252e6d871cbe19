package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// fieldChange is a field that differs, in the contract's spelling; "" is one
// that is not there.
type fieldChange struct {
	Field string `json:"field"`
	Have  string `json:"have"`
	Want  string `json:"want"`
}

// compareSpecs lists what differs. Both come from the same decoder, so that
// two spellings of one wish are equal here as they are to the engine.
func compareSpecs(have, want *trigger.Spec) (all []fieldChange) {
	h, w := spell(have), spell(want)
	if want.When.Start == "" {
		delete(h, "start") // what the engine settled where nobody asked
	}
	for _, name := range spelled {
		if h[name] != w[name] {
			all = append(all, fieldChange{name, h[name], w[name]})
		}
	}
	return all
}

// spelled is the order in which differences are told.
var spelled = []string{
	"delay", "fire_at", "recurrence", "start", "timezone", "until", "count", "include", "exclude", "dst", "calendars",
	"channel", "user_id", "payload", "target_key", "headers", "tags", "priority", "jitter", "expires_after", "misfire",
	"follow_user",
	"callback", "correlation_id",
}

// spell is a Spec as texts that are equal where the fields mean the same;
// defaults are no text.
func spell(s *trigger.Spec) map[string]string {
	out := map[string]string{
		"channel": s.Channel, "user_id": s.UserID, "payload": payloadText(s), "target_key": s.TargetKey,
		"priority": s.Priority.String(), "misfire": s.Misfire.String(), "correlation_id": s.CorrelationID,
	}
	spellWhen(&s.When, out)
	if s.Jitter > 0 {
		out["jitter"] = s.Jitter.String()
	}
	if s.Expires > 0 {
		out["expires_after"] = s.Expires.String()
	}
	if s.FollowUser {
		out["follow_user"] = "true"
	}
	if s.Callback != nil {
		out["callback"] = fmt.Sprintf("%s timeout=%s retry=%v", s.Callback.URL, s.Callback.Timeout, s.Callback.Retry)
	}
	pairs := make([]string, 0, len(s.Tags))
	for _, t := range s.Tags {
		pairs = append(pairs, t.Key+"="+t.Value)
	}
	out["tags"] = sortedText(pairs)
	pairs = pairs[:0]
	for _, h := range s.Headers {
		pairs = append(pairs, h.Key+"="+string(h.Value))
	}
	out["headers"] = sortedText(pairs)
	return out
}

func spellWhen(w *trigger.When, out map[string]string) {
	out["delay"], out["recurrence"] = w.DelayText, strings.TrimPrefix(w.Recurrence, "RRULE:")
	switch w.Kind {
	case trigger.WhenInstant:
		out["fire_at"] = w.FireAt.String()
	case trigger.WhenLocal:
		out["fire_at"] = timeText(w.Local)
	}
	if out["timezone"] = w.Zone; w.Zone == "" && w.Kind == trigger.WhenRecurrence {
		out["timezone"] = "UTC"
	}
	out["start"], out["until"] = timeText(w.Start), timeText(w.Until)
	if w.Count > 0 {
		out["count"] = strconv.Itoa(w.Count)
	}
	out["include"], out["exclude"] = timesText(w.Include), timesText(w.Exclude)
	if gap, overlap := or(w.DST.Gap, "shift"), or(w.DST.Overlap, "first"); gap != "shift" || overlap != "first" {
		out["dst"] = "gap=" + gap + " overlap=" + overlap
	}
	if w.Calendars != nil {
		out["calendars"] = strings.Join(w.Calendars.Names, ",") + " on=" + or(w.Calendars.On, calendar.OnSkip)
	}
}

// timeText spells a date-time one way: 09:00 is 09:00:00.
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

// payloadText spells JSON with its names sorted and no spaces, for what a
// file declares has no other order; other bytes as base64.
func payloadText(s *trigger.Spec) string {
	dec := json.NewDecoder(bytes.NewReader(s.Payload))
	dec.UseNumber()
	var v any
	if len(s.Payload) == 0 {
		return ""
	}
	if dec.Decode(&v) != nil || dec.More() {
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

// hasTags says that a trigger carries all of these labels.
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
