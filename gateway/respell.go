package gateway

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// commandOfContent spells everything of a Spec but when and headers, which
// need not be JSON.
func commandOfContent(s *trigger.Spec) *topics.CommandJSON {
	c := &topics.CommandJSON{
		Channel: s.Channel, UserID: s.UserID, TargetKey: s.TargetKey, Jitter: durationText(s.Jitter),
		ExpiresAfter: durationText(s.Expires), FollowUser: s.FollowUser, CorrelationID: s.CorrelationID,
	}
	switch {
	case len(s.Payload) == 0:
	case jsontext.Value(s.Payload).IsValid(jsontext.AllowDuplicateNames(true)):
		c.Payload = s.Payload
	default:
		c.PayloadBase64 = base64.StdEncoding.EncodeToString(s.Payload)
	}
	if s.Priority != trigger.Normal {
		c.Priority = s.Priority.String()
	}
	if s.Misfire != trigger.FireOnce {
		c.Misfire = s.Misfire.String()
	}
	for _, t := range s.Tags {
		if c.Tags == nil {
			c.Tags = map[string]string{}
		}
		c.Tags[t.Key] = t.Value
	}
	if s.Callback != nil {
		c.Callback = callbackJSON(s.Callback)
	}
	return c
}

func callbackJSON(c *trigger.Callback) *topics.CallbackJSON {
	j := &topics.CallbackJSON{URL: c.URL, Timeout: durationText(c.Timeout)}
	if c.Retry != nil {
		j.Retry = []topics.TextOrNumber{}
	}
	for _, wait := range c.Retry {
		j.Retry = append(j.Retry, topics.TextOrNumber(millisecondsText(wait)))
	}
	return j
}

// commandOfWhen spells when a trigger was asked to fire.
func commandOfWhen(st *trigger.State) *topics.CommandJSON {
	w := &st.Spec.When
	c := &topics.CommandJSON{Timezone: w.Zone, Delay: topics.TextOrNumber(w.DelayText)}
	switch w.Kind {
	case trigger.WhenInstant:
		c.FireAt = topics.TextOrNumber(w.FireAt.String())
	case trigger.WhenLocal:
		c.FireAt = topics.TextOrNumber(w.Local)
	case trigger.WhenRecurrence:
		c.Recurrence, c.Start, c.Until, c.Count = w.Recurrence, topics.TextOrNumber(w.Start), topics.TextOrNumber(w.Until), w.Count
		c.Include, c.Exclude = w.Include, w.Exclude
	}
	if w.DST != (trigger.DST{}) {
		c.DST = &topics.DSTJSON{Gap: w.DST.Gap, Overlap: w.DST.Overlap}
	}
	if w.Calendars != nil {
		c.Calendars = &topics.CalendarsJSON{Names: w.Calendars.Names, On: w.Calendars.On}
	}
	return c
}

// resolvedWhen spells when a trigger will fire as it was resolved, so that a
// register of it fires at the same instant: a delay, or what a snooze has
// moved, as its instant. The same rule keeps what is skipped by itself.
func resolvedWhen(st *trigger.State) *topics.CommandJSON {
	c := commandOfWhen(st)
	w := &st.Spec.When
	switch {
	case st.Recurring(), w.Kind == trigger.WhenLocal && st.Series.Local != "":
	default:
		c.Delay, c.Calendars = "", nil
		c.FireAt = topics.TextOrNumber(resolvedInstant(st).String())
	}
	return c
}

// resolvedInstant is when a one-shot fires: as planned, or after a snooze of
// what had fired.
func resolvedInstant(st *trigger.State) trigger.Instant {
	if st.Series.At != 0 {
		return st.Series.At
	}
	return st.Next()
}

// withSkipped adds what is skipped to the dates left out. A second pass of an
// overlap has no spelling as a date: excluding it would exclude the first too.
func withSkipped(exclude, skipped []string) []string {
	all := append([]string(nil), exclude...)
	for _, id := range skipped {
		if !strings.HasSuffix(id, "+f1") {
			all = append(all, id)
		}
	}
	return all
}

func millisecondsText(d time.Duration) string {
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
