package pipeline

import (
	"fmt"
	"math"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var hostileCommands = []string{
	`{"op":"register","delay":"87660h"}`,
	`{"op":"register","delay":0,"jitter":"87660h","expires_after":"87660h"}`,
	`{"op":"register","fire_at":"9999-12-31T23:59:59.999Z","channel":"push"}`,
	`{"op":"register","fire_at":"0001-01-01T00:00:00+23:59"}`,
	`{"op":"register","fire_at":"0001-01-01T00:00","timezone":"Asia/Tokyo"}`,
	`{"op":"register","fire_at":"9999-12-31T23:59","timezone":"America/New_York"}`,
	`{"op":"register","fire_at":9999999999999}`,
	`{"op":"register","recurrence":"every:1m"}`,
	`{"op":"register","recurrence":"every:292y"}`,
	`{"op":"register","recurrence":"every:2562047h","start":"9999-01-01T00:00:00Z"}`,
	`{"op":"register","recurrence":"FREQ=DAILY","timezone":"Pacific/Apia","misfire":"fire_all","jitter":"1h"}`,
	`{"op":"register","recurrence":"FREQ=HOURLY;BYMINUTE=5","start":"0001-01-01T00:00:00Z","misfire":"skip","channel":"webhook","callback":{"url":"https://x.example/"}}`,
	`{"op":"register","recurrence":"FREQ=YEARLY;BYSETPOS=-1;BYDAY=MO;COUNT=100000","start":"9998-12-31T23:59:59.999"}`,
	`{"op":"register","recurrence":"cron:*/5 * * * *","until":"9999-12-31T23:59:59Z","include":["0001-01-01","9999-12-31T23:59:59"],"exclude":["9999-12-31"]}`,
	`{"op":"register","include":["0001-01-01","9999-12-31T23:59:59Z"],"timezone":"Europe/Berlin"}`,
	`{"op":"reschedule","delay":"10m"}`,
	`{"op":"reschedule","recurrence":"FREQ=WEEKLY","timezone":"Asia/Kathmandu"}`,
	`{"op":"snooze","for":"87660h"}`,
	`{"op":"snooze","until":"0001-01-01T00:00"}`,
	`{"op":"snooze","until":"9999-12-31T23:59:59Z"}`,
	`{"op":"skip","occurrence":"9999-12-31"}`,
	`{"op":"skip"}`, `{"op":"pause"}`, `{"op":"resume"}`, `{"op":"run_now"}`,
	`{"op":"rezone","timezone":"Pacific/Kiritimati"}`,
	`{"op":"ack","occurrence":"~"}`, `{"op":"skip","occurrence":"2026-01-01+f1~"}`, `{"op":"erase"}`, `{"op":"cancel"}`,
}

// TestHostileTimes: whatever a broker, or a topic with CreateTime, says of when a
// command was appended, what is decided can be written, read again and armed.
func TestHostileTimes(t *testing.T) {
	now := time.Date(2026, 3, 8, 6, 59, 59, 999e6, time.UTC).UnixMilli()
	times := []int64{
		now, now - 40*24*3_600_000, -1, math.MinInt64, math.MaxInt64, -62_135_596_800_000,
		253_402_300_799_999, 1 << 53, 1 << 44,
	}
	m := trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel: func(name string) trigger.Channel {
			return trigger.Channel{
				Topic: "t", Receipts: name != "default", ReceiptTimeout: time.Hour,
				Retry: []time.Duration{time.Second}, JitterLow: time.Second,
			}
		},
	}
	slow := time.Duration(0)
	for _, appended := range times {
		for _, at := range []int64{now, -62_135_596_800_000} {
			for i, first := range hostileCommands {
				for j, then := range append([]string{""}, hostileCommands[15:]...) {
					if (i+j)%4 != 0 { // each with each other takes a quarter of a minute
						continue
					}
					var s *trigger.State
					what := fmt.Sprintf("appended %d, now %d: %s, %s", appended, at, first, then)
					func() {
						defer func() {
							if p := recover(); p != nil {
								t.Fatalf("%s: %v", what, p)
							}
						}()
						for n, text := range []string{first, then} {
							rec := &topics.Record{
								Topic: "waterclock.commands", Offset: int64(n), Key: []byte("k"),
								Value: []byte(text), Timestamp: trigger.Instant(appended),
							}
							cmd, err := topics.DecodeCommand(rec, topics.Limits{}, nil)
							if err != nil {
								continue
							}
							begin := cpuTime(t)
							out := m.Apply(s, cmd, trigger.Instant(at))
							slow = max(slow, cpuTime(t)-begin)
							s = out.State
							checkHostile(t, what, &out)
							for range 3 {
								if s == nil {
									break
								}
								timers := s.Timers(nil)
								if len(timers) == 0 {
									break
								}
								begin := cpuTime(t)
								out = m.Due(s, timers[0], max(trigger.Instant(at), timers[0].Due))
								slow = max(slow, cpuTime(t)-begin)
								checkHostile(t, what, &out)
								s = out.State
							}
						}
					}()
				}
			}
		}
	}
	if slow > 2*time.Second {
		t.Errorf("one decision took %s of CPU time", slow)
	}
}

func checkHostile(t *testing.T, what string, out *trigger.Outcome) {
	t.Helper()
	for i := range out.Facts {
		b := topics.AppendEvent(nil, "k", &out.Facts[i], topics.EventEnv{EventUS: 1, At: 5})
		if _, err := topics.DecodeEvent(b); err != nil {
			t.Fatalf("%s: event %s: %v", what, b, err)
		}
	}
	for i := range out.Fires {
		topics.DueRecord(&out.Fires[i], topics.DueEnv{Cluster: "c"})
	}
	s := out.State
	if s == nil {
		return
	}
	b, err := topics.AppendState(nil, s)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if _, err := topics.DecodeState("k", b); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, timer := range s.Timers(nil) {
		if _, _, _, _, ok := statestore.ParseRef(statestore.Ref(timer, "k")); !ok {
			t.Fatalf("%s: timer %+v", what, timer)
		}
	}
}

// cpuTime is what this process has computed so far: other processes do not count.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
