package gateway

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Trigger is a trigger as GET shows it.
type Trigger struct {
	TriggerID string `json:"trigger_id"`
	Tenant    string `json:"tenant"`
	State     string `json:"state" enum:"PENDING,PAUSED,IN_FLIGHT,FIRED,FAILED,CANCELLED,EXPIRED"`
	Revision  int64  `json:"revision"`

	Channel    string                `json:"channel"`
	UserID     string                `json:"user_id,omitempty"`
	FireAt     string                `json:"fire_at,omitempty" format:"date-time" doc:"Nominal instant of the next occurrence, or of the last one that fired"`
	NextFireAt string                `json:"next_fire_at,omitempty" format:"date-time" doc:"When it fires next, jitter and snoozes included"`
	LocalTime  string                `json:"local_time,omitempty" example:"2026-11-20T09:00:00[America/New_York]"`
	Timezone   string                `json:"timezone,omitempty"`
	TZData     string                `json:"tzdata,omitempty" doc:"Release of the tz database the instant was resolved with"`
	Delay      string                `json:"delay,omitempty" doc:"As registered"`
	Recurrence string                `json:"recurrence,omitempty"`
	Start      string                `json:"start,omitempty"`
	Until      string                `json:"until,omitempty"`
	Count      int                   `json:"count,omitempty"`
	Include    []string              `json:"include,omitempty"`
	Exclude    []string              `json:"exclude,omitempty"`
	Skipped    []string              `json:"skipped,omitempty" doc:"Coming occurrences that are left out"`
	DST        *topics.DSTJSON       `json:"dst,omitempty"`
	Calendars  *topics.CalendarsJSON `json:"calendars,omitempty"`

	Payload       json.RawMessage      `json:"payload,omitempty" doc:"The payload, if it is JSON"`
	PayloadBase64 string               `json:"payload_base64,omitempty" doc:"The payload, if it is not"`
	TargetKey     string               `json:"target_key,omitempty"`
	Headers       map[string]string    `json:"headers,omitempty"`
	Tags          map[string]string    `json:"tags,omitempty"`
	Priority      string               `json:"priority" enum:"high,normal,low"`
	Jitter        string               `json:"jitter,omitempty"`
	ExpiresAfter  string               `json:"expires_after,omitempty"`
	Misfire       string               `json:"misfire" enum:"fire_all,fire_once,skip"`
	FollowUser    bool                 `json:"follow_user,omitempty"`
	Callback      *topics.CallbackJSON `json:"callback,omitempty"`
	CorrelationID string               `json:"correlation_id,omitempty"`

	Attempt     int        `json:"attempt" doc:"Of the occurrence in flight, else of the last one; 0 before the first"`
	LastFiredAt string     `json:"last_fired_at,omitempty" format:"date-time"`
	Live        []LiveJSON `json:"live,omitempty" doc:"Occurrences with a timer of their own"`
	Note        string     `json:"note,omitempty" doc:"Of the pause"`
	CreatedAt   string     `json:"created_at" format:"date-time"`
	UpdatedAt   string     `json:"updated_at" format:"date-time"`
	ForgetAt    string     `json:"forget_at,omitempty" format:"date-time" doc:"Finished: until when it is remembered"`
}

// LiveJSON is an occurrence beside the plan.
type LiveJSON struct {
	Kind       string `json:"kind" enum:"snoozed,in_flight,retry,run_now"`
	Occurrence string `json:"occurrence"`
	At         string `json:"at" format:"date-time" doc:"When its timer goes: it fires, is retried, or has waited long enough for a receipt"`
	Attempt    int    `json:"attempt"`
}

var liveKinds = [...]string{trigger.LiveSnoozed: "snoozed", trigger.LiveInFlight: "in_flight", trigger.LiveRetry: "retry", trigger.LiveRunNow: "run_now"}

func triggerJSON(st *trigger.State) *Trigger {
	t := &Trigger{
		TriggerID: st.Key.ID(), Tenant: st.Key.Tenant(), State: st.Status.String(), Revision: st.Revision,
		FireAt: instantText(st.Nominal()), NextFireAt: instantText(st.NextFire()), LocalTime: st.Series.Local,
		TZData: st.Series.TZData, Skipped: st.Series.Skip, Note: st.Note,
		CreatedAt: st.CreatedAt.String(), UpdatedAt: st.UpdatedAt.String(), ForgetAt: instantText(st.ForgetAt),
	}
	t.setWhen(st)
	t.setContent(&st.Spec)
	t.setFirings(st)
	return t
}

func (t *Trigger) setWhen(st *trigger.State) {
	w := &st.Spec.When
	t.Timezone, t.Delay, t.Recurrence = w.Zone, w.DelayText, w.Recurrence
	t.Until, t.Count, t.Include, t.Exclude = w.Until, w.Count, w.Include, w.Exclude
	if w.DST != (trigger.DST{}) {
		t.DST = &topics.DSTJSON{Gap: w.DST.Gap, Overlap: w.DST.Overlap}
	}
	if w.Calendars != nil {
		t.Calendars = &topics.CalendarsJSON{Names: w.Calendars.Names, On: w.Calendars.On}
	}
	if t.Start = w.Start; st.Series.Start != "" {
		t.Start = st.Series.Start
	}
	if t.Recurrence != "" && t.Timezone == "" {
		t.Timezone = "UTC"
	}
}

func (t *Trigger) setContent(s *trigger.Spec) {
	t.Channel, t.UserID, t.TargetKey, t.CorrelationID = s.Channel, s.UserID, s.TargetKey, s.CorrelationID
	t.Jitter, t.ExpiresAfter = durationText(s.Jitter), durationText(s.Expires)
	t.Priority, t.Misfire, t.FollowUser = s.Priority.String(), s.Misfire.String(), s.FollowUser
	switch {
	case len(s.Payload) == 0:
	case jsontext.Value(s.Payload).IsValid(jsontext.AllowDuplicateNames(true)):
		t.Payload = s.Payload
	default:
		t.PayloadBase64 = base64.StdEncoding.EncodeToString(s.Payload)
	}
	for _, tag := range s.Tags {
		if t.Tags == nil {
			t.Tags = map[string]string{}
		}
		t.Tags[tag.Key] = tag.Value
	}
	for _, h := range s.Headers {
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[h.Key] = string(h.Value)
	}
	if s.Callback != nil {
		t.Callback = callbackJSON(s.Callback)
	}
}

func callbackJSON(c *trigger.Callback) *topics.CallbackJSON {
	j := &topics.CallbackJSON{URL: c.URL, Timeout: topics.TextOrNumber(durationText(c.Timeout))}
	if c.Retry != nil {
		j.Retry = []topics.TextOrNumber{}
	}
	for _, wait := range c.Retry {
		j.Retry = append(j.Retry, topics.TextOrNumber(strconv.FormatInt(wait.Milliseconds(), 10)+"ms"))
	}
	return j
}

func (t *Trigger) setFirings(st *trigger.State) {
	if n := len(st.Done); n > 0 {
		t.LastFiredAt, t.Attempt = st.Done[n-1].At.String(), 1
	}
	for i := range st.Live {
		l := &st.Live[i]
		if l.Kind == trigger.LiveInFlight || l.Kind == trigger.LiveRetry {
			t.Attempt = l.Attempt
		}
		t.Live = append(t.Live, LiveJSON{liveKinds[l.Kind], l.Occurrence, l.Due.String(), l.Attempt})
	}
}

// durationText spells a duration as the contract reads it.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return topics.DurationText(d)
}
