package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func explainPolicies(t map[string]any, add func(about, format string, args ...any)) {
	if jitter := cell(t["jitter"]); jitter != "" {
		add("jitter", "%s", jitterWords(t, jitter))
	}
	if p := cell(t["priority"]); p != "" && p != "normal" {
		add("priority", "%s: among what is due at the same time it goes %s", p,
			map[string]string{"high": "first", "low": "last"}[p])
	}
	if words := misfireWords[cell(t["misfire"])]; words != "" {
		add("misfire", "after an outage or a pause %s (%s)", words, cell(t["misfire"]))
	}
	if words := escalationWords(t); words != "" {
		add("escalation", "%s", words)
	}
	if expires := cell(t["expires_after"]); expires != "" {
		add("expires", "an occurrence that is over %s late does not fire", expires)
	}
	live, _ := t["live"].([]any)
	for _, l := range live {
		if o, ok := l.(map[string]any); ok {
			add("also", "%s", liveWords(o))
		}
	}
}

// escalationWords lists the steps, and when each is sent unless something stops the escalation.
func escalationWords(t map[string]any) string {
	steps, _ := t["escalation"].([]any)
	var words []string
	for _, step := range steps {
		s, _ := step.(map[string]any)
		if after := cell(s["after"]); after == "" {
			words = append(words, cell(s["channel"]))
		} else {
			words = append(words, fmt.Sprintf("%s after %s", cell(s["channel"]), after))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words, ", then ") + ", until one is delivered or somebody reacts"
}

// liveWords says what a live occurrence waits for.
func liveWords(o map[string]any) string {
	words := map[string]string{
		"snoozed":    "%s was snoozed and fires at %s",
		"in_flight":  "%s is in flight: the engine waits for a receipt until %s",
		"retry":      "%s waits to be sent again at %s",
		"run_now":    "%s was asked for by run and fires at %s",
		"escalating": "%s goes to the next step of its escalation at %s",
	}[cell(o["kind"])]
	if words == "" {
		words = "%s is " + strings.ReplaceAll(cell(o["kind"]), "_", " ") + " until %s"
	}
	return fmt.Sprintf(words, cell(o["occurrence"]), cell(o["at"]))
}

// jitterWords says how far jitter moves this occurrence.
func jitterWords(t map[string]any, window string) string {
	nominal, err1 := time.Parse(time.RFC3339, cell(t["fire_at"]))
	next, err2 := time.Parse(time.RFC3339, cell(t["next_fire_at"]))
	if errors.Join(err1, err2) != nil || next.Before(nominal) {
		return fmt.Sprintf("up to %s later than the rule, by a hash of key and occurrence", window)
	}
	return fmt.Sprintf("up to %s later than the rule, by a hash of key and occurrence: this one %s", window,
		next.Sub(nominal))
}

const delayWords = "%s after the broker appended the command"

// snoozeOf returns the snooze that decides when a one-shot fires or fired: the newest event that
// planned it. It returns nil if another command planned it, or if there is no history.
func snoozeOf(t map[string]any, events []topics.Event) *topics.Event {
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		switch trigger.FactType(e.Type) {
		case trigger.Registered, trigger.Replaced, trigger.Rescheduled:
			return nil
		case trigger.Snoozed:
			if !sameInstant(e.ScheduledAt, cell(t["fire_at"])) &&
				!sameInstant(e.ScheduledAt, cell(t["next_fire_at"])) {
				return nil
			}
			return e
		}
	}
	return nil
}

func sameInstant(x, y string) bool {
	a, err1 := time.Parse(time.RFC3339, x)
	b, err2 := time.Parse(time.RFC3339, y)
	return err1 == nil && err2 == nil && a.Equal(b)
}

// beforeSnooze says when a snoozed one-shot would have fired.
func beforeSnooze(t map[string]any, events []topics.Event) string {
	if delay := cell(t["delay"]); delay != "" {
		return fmt.Sprintf("; before that: "+delayWords, delay)
	}
	for i := len(events) - 1; i >= 0; i-- {
		switch e := &events[i]; trigger.FactType(e.Type) {
		case trigger.Registered, trigger.Replaced, trigger.Rescheduled:
			return "; before that: " + or(e.LocalTime, e.ScheduledAt)
		}
	}
	return ""
}
