package topics

import (
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// appended is when every command of these tests was appended: 2026-09-21T14:13:20Z.
const appended trigger.Instant = 1_790_000_000_000

// headers spells headers as "key=value", for tables.
func headers(pairs ...string) []trigger.Header {
	var hs []trigger.Header
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		hs = append(hs, header(key, value))
	}
	return hs
}

func command(value string, hs ...string) *Record {
	return &Record{
		Topic: "waterclock.commands", Partition: 3, Offset: 81, Timestamp: appended,
		Key: []byte("k"), Value: []byte(value), Headers: headers(hs...),
	}
}

// register is a JSON register with the given fields.
func register(fields string) *Record { return command(`{"op":"register",` + fields + `}`) }

// What both spellings make of a wish: the same command and the same hash.
func TestBothSpellings(t *testing.T) {
	for _, c := range []struct {
		name    string
		json    *Record
		headers *Record
		check   func(c *trigger.Command) bool
	}{
		{
			"delay", register(`"delay":"7m","channel":"orders","payload":{"holdId":"h_8c4"}`),
			command(`{"holdId":"h_8c4"}`, "wc-delay=7m", "wc-channel=orders"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenDelay && w.DelayText == "7m" && w.Delay == 7*time.Minute &&
					c.Spec.Channel == "orders" &&
					string(c.Spec.Payload) == `{"holdId":"h_8c4"}` && c.Spec.ContentType == "application/json"
			},
		},
		{
			"delay as a number", register(`"delay":420`), command("", "wc-delay=420"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Delay == 7*time.Minute && c.Spec.When.DelayText == "420" &&
					c.Spec.Channel == "default" && c.Spec.ContentType == ""
			},
		},
		{
			"delay of 0", register(`"delay":0`), command("", "wc-delay=0"),
			func(c *trigger.Command) bool { return c.Spec.When.Kind == trigger.WhenDelay && c.Spec.When.Delay == 0 },
		},
		{
			"instant", register(`"fire_at":"2027-01-15T09:00:00+01:00"`),
			command("", "wc-fire-at=2027-01-15T08:00:00Z"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Kind == trigger.WhenInstant && c.Spec.When.FireAt == 1_800_000_000_000
			},
		},
		{
			"seconds and milliseconds", register(`"fire_at":1800000000`), command("", "wc-fire-at=1800000000000"),
			func(c *trigger.Command) bool { return c.Spec.When.FireAt == 1_800_000_000_000 },
		},
		{
			"local", register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin"`),
			command("", "wc-fire-at=2026-11-20T09:00:00", "wc-timezone=Europe/Berlin"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenLocal && w.Local == "2026-11-20T09:00:00" && w.Zone == "Europe/Berlin"
			},
		},
		{
			"recurrence",
			register(`"recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO","start":"2026-11-20T09:00","timezone":"America/New_York","until":"2027-11-20T09:00","count":7`),
			command("", "wc-recurrence=RRULE:FREQ=WEEKLY;BYDAY=MO", "wc-start=2026-11-20T09:00:00",
				"wc-timezone=America/New_York", "wc-until=2027-11-20T09:00:00", "wc-count=7"),
			func(c *trigger.Command) bool {
				w := c.Spec.When
				return w.Kind == trigger.WhenRecurrence && w.Start == "2026-11-20T09:00:00" &&
					w.Until == "2027-11-20T09:00:00" && w.Count == 7
			},
		},
		{
			"fire_at is the start of a recurrence", register(`"recurrence":"every:15m","fire_at":1800000000`),
			command("", "wc-recurrence=every:15m", "wc-start=2027-01-15T08:00:00Z"),
			func(c *trigger.Command) bool {
				return c.Spec.When.Kind == trigger.WhenRecurrence && c.Spec.When.Start == "2027-01-15T08:00:00.000Z"
			},
		},
		{
			"policy",
			register(`"delay":"7m","priority":"low","jitter":"5s","expires_after":"1h","misfire":"skip","target_key":"t","user_id":"u"`),
			command("", "wc-delay=7m", "wc-priority=low", "wc-jitter=5", "wc-expires-after=PT1H", "wc-misfire=skip",
				"wc-target-key=t", "wc-user-id=u"),
			func(c *trigger.Command) bool {
				s := c.Spec
				return s.Priority == trigger.Low && s.Jitter == 5*time.Second && s.Expires == time.Hour &&
					s.Misfire == trigger.SkipMissed && s.TargetKey == "t" && s.UserID == "u"
			},
		},
		{
			"defaults written out",
			register(`"delay":"7m","channel":"default","priority":"normal","misfire":"fire_once","dst":{"gap":"shift","overlap":"first"}`),
			command("", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Spec.Priority == trigger.Normal && c.Spec.When.DST == trigger.DST{}
			},
		},
		{
			"callback", register(`"delay":"7m","callback":{"url":"https://a.example/x"}`),
			command("", "wc-delay=7m", "wc-callback-url=https://a.example/x"),
			func(c *trigger.Command) bool {
				return c.Spec.Channel == "webhook" && c.Spec.Callback.URL == "https://a.example/x" &&
					c.Spec.Callback.Retry == nil
			},
		},
		{
			"user headers in another order", register(`"delay":"7m","headers":{"b":"2","a":"1"}`),
			command("", "a=1", "b=2", "wc-delay=7m"),
			func(c *trigger.Command) bool { return len(c.Spec.Headers) == 2 },
		},
		{
			"base64", register(`"delay":"7m","payload_base64":"AP8="`), command("\x00\xff", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Spec.ContentType == "application/octet-stream" && string(c.Spec.Payload) == "\x00\xff"
			},
		},
		{
			"conditions", register(`"delay":"7m","if_revision":3,"idempotency_key":"i","correlation_id":"c"`),
			command("", "wc-delay=7m", "wc-if-revision=3", "wc-idempotency-key=i", "wc-correlation-id=c"),
			func(c *trigger.Command) bool {
				return c.IfRevision == 3 && c.IdempotencyKey == "i" && c.Spec.CorrelationID == "c"
			},
		},
		{
			"if_absent", register(`"delay":"7m","if_absent":true`), command("", "wc-delay=7m", "wc-if-absent=true"),
			func(c *trigger.Command) bool { return c.IfAbsent },
		},
		{
			"follow_user",
			register(`"fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","user_id":"u","follow_user":true`),
			command("", "wc-fire-at=2026-11-20T09:00", "wc-timezone=Europe/Berlin", "wc-user-id=u",
				"wc-follow-user=true"),
			func(c *trigger.Command) bool { return c.Spec.FollowUser },
		},
		{
			"cancel", command(`{"op":"cancel","if_revision":3}`), command("cancel", "wc-op=cancel", "wc-if-revision=3"),
			func(c *trigger.Command) bool {
				return c.Op == trigger.OpCancel && c.IfRevision == 3 && c.Spec == nil && c.Hash == trigger.Hash{}
			},
		},
		{
			"reschedule", command(`{"op":"reschedule","delay":"7m"}`), command("", "wc-op=reschedule", "wc-delay=7m"),
			func(c *trigger.Command) bool {
				return c.Op == trigger.OpReschedule && c.Spec.When.Delay == 7*time.Minute && c.Hash == trigger.Hash{}
			},
		},
		{
			"snooze for", command(`{"op":"snooze","for":"10m"}`), command("", "wc-op=snooze", "wc-for=600"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpSnooze && c.For == 10*time.Minute },
		},
		{
			"snooze until", command(`{"op":"snooze","until":"2026-11-20T09:00"}`),
			command("", "wc-op=snooze", "wc-until=2026-11-20T09:00"),
			func(c *trigger.Command) bool { return c.UntilLocal == "2026-11-20T09:00:00" && c.Until == 0 },
		},
		{
			"skip", command(`{"op":"skip","occurrence":"2026-12-25"}`),
			command("", "wc-op=skip", "wc-occurrence=2026-12-25"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpSkip && c.Occurrence == "2026-12-25" },
		},
		{
			"skip the next", command(`{"op":"skip"}`), command("", "wc-op=skip"),
			func(c *trigger.Command) bool { return c.Occurrence == "" },
		},
		{
			"pause", command(`{"op":"pause","note":"on leave"}`), command("", "wc-op=pause", "wc-note=on leave"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpPause && c.Note == "on leave" },
		},
		{
			"resume", command(`{"op":"resume"}`), command("", "wc-op=resume"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpResume },
		},
		{
			"run now", command(`{"op":"run_now","actor":"ops@x"}`), command("", "wc-op=run_now", "wc-actor=ops@x"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpRunNow && c.Actor == "ops@x" },
		},
		{
			"rezone", command(`{"op":"rezone","timezone":"Asia/Tokyo"}`),
			command("", "wc-op=rezone", "wc-timezone=Asia/Tokyo"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpRezone && c.Zone == "Asia/Tokyo" },
		},
		{
			"ack", command(`{"op":"ack","occurrence":"snz-3-17"}`), command("", "wc-op=ack", "wc-occurrence=snz-3-17"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpAck && c.Occurrence == "snz-3-17" },
		},
		{
			"erase", command(`{"op":"erase"}`), command("", "wc-op=erase"),
			func(c *trigger.Command) bool { return c.Op == trigger.OpErase },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			byJSON, err := DecodeCommand(c.json, Limits{}, nil)
			if err != nil {
				t.Fatal("json:", err)
			}
			byHeaders, err := DecodeCommand(c.headers, Limits{}, nil)
			if err != nil {
				t.Fatal("headers:", err)
			}
			for spelling, got := range map[string]*trigger.Command{"json": byJSON, "headers": byHeaders} {
				if !c.check(got) {
					t.Errorf("%s: %+v, spec %+v", spelling, got, got.Spec)
				}
			}
			if byJSON.Hash != byHeaders.Hash {
				t.Errorf("the spellings hash apart: %x, %x", byJSON.Hash, byHeaders.Hash)
			}
		})
	}
}

func TestOriginOfForwarded(t *testing.T) {
	origin := (Forward{Partition: 9, Offset: 4711, Append: appended - 5000}).Origin()
	got, err := DecodeCommand(command(`{"op":"cancel"}`), Limits{}, origin)
	if err != nil || got.From != *origin || !got.From.Forwarded {
		t.Errorf("got %+v, %v", got, err)
	}
	direct, err := DecodeCommand(command(`{"op":"cancel"}`), Limits{}, nil)
	if want := (trigger.Origin{Partition: 3, Offset: 81, Append: appended}); err != nil || direct.From != want {
		t.Errorf("got %+v, %v, want %+v", direct, err, want)
	}
}
