package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// load sends what users send: one-shots and cancels, which the world itself tracks, and every
// other operation, which the checker judges.
func (l *life) load(rng *rand.Rand, span time.Duration) {
	for begin := time.Now(); time.Since(begin) < span; {
		switch n := rng.IntN(40); {
		case n < 16:
			l.once(rng)
		case n < 34:
			l.order(rng)
		case n < 37:
			l.steady(rng)
		case n == 37:
			l.receipts(rng)
		case n == 38:
			l.redrive(rng)
		default:
			l.hostile(rng)
		}
		time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
	}
}

// once registers a trigger that is due soon, and may cancel it.
func (l *life) once(rng *rand.Rand) {
	key := fmt.Sprint("k", l.oneShot)
	l.oneShot++
	on := l.astray(rng, key)
	l.RegisterOn(on, key, time.Now().Add(time.Duration(rng.IntN(l.soon))*time.Millisecond))
	if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(3)) * time.Second)
		l.CancelOn(on, key)
	}
}

// ordered is the number of triggers that get all kinds of commands.
const ordered = 12

// order sends a random command for one of a few triggers.
func (l *life) order(rng *rand.Rand) {
	n := rng.IntN(ordered)
	key := fmt.Sprint("c", n)
	l.SendFree(l.astray(rng, key), key, l.anything(rng, n))
}

func pick(rng *rand.Rand, all ...string) string { return all[rng.IntN(len(all))] }

// orderedRules has one rule for each trigger. Otherwise a new rule in the same life would wait
// until all that the old one had decided is over in local time, in any zone. The contract does
// not require that.
var orderedRules = []string{
	`"every:7m"`, `"every:90s","jitter":"30s"`, `"FREQ=MINUTELY;INTERVAL=5","count":5`,
	`"FREQ=HOURLY;BYMINUTE=0,20,40","timezone":"Asia/Kathmandu"`, `"cron:*/6 * * * *","timezone":"America/New_York"`,
	`"cron:10,40 1-3 * * *","timezone":"America/New_York"`,
	`"FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=15,45","timezone":"Europe/Berlin","dst":{"overlap":"both"}`,
	`"FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=30","timezone":"Europe/Berlin"`,
}

// anything returns a random command for trigger n.
func (l *life) anything(rng *rand.Rand, n int) string {
	wait := fmt.Sprintf("%ds", 1+rng.IntN(60))
	if rng.IntN(4) == 0 {
		wait = fmt.Sprintf("%dm", 1+rng.IntN(600))
	}
	switch rng.IntN(19) {
	case 0, 1, 2:
		return `{"op":"register","delay":"` + wait + `"` + l.extra(rng) + `}`
	case 3:
		return `{"op":"register","delay":"5m"` + l.extra(rng) + `}`
	case 4:
		return `{"op":"register",` + localTime(rng) + l.extra(rng) + `}`
	case 5, 6, 7:
		return `{"op":"register","recurrence":` + orderedRules[n%len(orderedRules)] + l.extra(rng) + `}`
	case 8, 9:
		return `{"op":"cancel"}`
	case 10:
		return `{"op":"reschedule","delay":"` + wait + `"}`
	case 11, 12:
		return `{"op":"run_now"}`
	case 13:
		return `{"op":"snooze","for":"` + wait + `"}`
	case 14:
		return `{"op":"pause"}`
	case 15, 16:
		return `{"op":"resume"}`
	case 17:
		return `{"op":"ack"}`
	}
	return pick(rng, `{"op":"erase"}`, `{"op":"resume"}`, `{"op":"register"}`, `{"op":"wait"}`)
}

// localTime returns a local time about a minute ahead, in a random zone.
func localTime(rng *rand.Rand) string {
	zone := pick(rng, "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
	at := time.Now().Add(time.Duration(20+rng.IntN(60)) * time.Second)
	if loc, err := time.LoadLocation(zone); err == nil {
		at = at.In(loc)
	}
	return `"fire_at":"` + at.Format("2006-01-02T15:04:05") + `","timezone":"` + zone + `"`
}

// steadies is the number of series that are registered once and then get only edits that keep
// their rules. The contract does not define what a skip removes from a rule that is replaced and
// registered once more.
const steadies = 4

// steady sends an edit of a series.
func (l *life) steady(rng *rand.Rand) {
	key := fmt.Sprint("r", rng.IntN(steadies))
	body := pick(rng, `{"op":"skip"}`, `{"op":"run_now"}`, `{"op":"pause"}`, `{"op":"resume"}`, `{"op":"resume"}`,
		`{"op":"ack"}`,
		`{"op":"snooze","for":"20s"}`, `{"op":"rezone","timezone":"`+pick(rng, "Europe/Berlin", "America/New_York",
			"Asia/Tokyo")+`"}`)
	l.SendFree(l.astray(rng, key), key, body)
}

// extra returns one or two random fields of a register.
func (l *life) extra(rng *rand.Rand) string {
	return pick(rng, "", "", `,"user_id":"u"`, `,"channel":"r-x"`, `,"channel":"r-x","user_id":"u"`,
		`,"misfire":"skip"`, `,"misfire":"fire_all"`,
		`,"expires_after":"10m"`, `,"payload":{"n":1}`, `,"idempotency_key":"i`+pick(rng, "1", "2", "3")+`"`,
		`,"if_absent":true`, `,"if_revision":2`,
		`,"priority":"low"`, `,"channel":"r-x","priority":"high"`)
}

// receipts answers some of the newest due events of the channel that has receipts, correctly or
// not.
func (l *life) receipts(rng *rand.Rand) {
	all := l.Dump(l.Names.Due("r-x"))
	for range min(4, len(all)) {
		d := all[len(all)-1-rng.IntN(min(8, len(all)))]
		key := pipelinetest.Header(d, "ce_subject")
		outcome := pick(rng, "delivered", "accepted", "failed", "retry", "suppressed")
		if l.words.IntN(3) == 0 {
			outcome = "postponed"
		}
		extra := pick(l.words, "", `,"retry_after":"20s"`, `,"code":"quiet_hours","retry_after":"1h"`)
		if n := pipelinetest.Header(d, "ce_wcpostponed"); l.words.IntN(2) == 0 {
			extra += `,"postponed":` + cmp.Or(n, "0")
		}
		l.Produce(&kgo.Record{
			Topic: l.Names.Receipts(), Partition: l.astray(rng, key), Key: []byte(key),
			Value: fmt.Appendf(nil, `{"due_id":%q,"outcome":%q,"attempt":%s%s}`, pipelinetest.Header(d, "ce_id"), outcome,
				pipelinetest.Header(d, "ce_wcattempt"), extra),
		})
	}
}

// redrive requests another attempt of a dead letter.
func (l *life) redrive(rng *rand.Rand) {
	all := l.Dump(l.Names.DeadLetter())
	if len(all) == 0 {
		return
	}
	r := all[rng.IntN(len(all))]
	rec := &topics.Record{Key: r.Key, Value: r.Value, Timestamp: trigger.At(r.Timestamp)}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, trigger.Header{Key: h.Key, Value: h.Value})
	}
	dead, err := topics.DecodeDeadLetter(rec)
	var body []byte
	if err == nil {
		body, err = topics.RedriveCommand(dead, "", "")
	}
	if err != nil {
		l.T.Errorf("redrive of %s: %v", r.Key, err)
		return
	}
	key := string(dead.Fire.Key)
	l.SendFree(l.astray(rng, key), key, string(body))
}

// hostile sends a record that is not a valid command, or one of extreme size.
func (l *life) hostile(rng *rand.Rand) {
	name, kind := "hostile-records", hostileRecords
	if rng.IntN(3) == 0 {
		name, kind = "giant-records", giantRecords
	}
	if !l.plan.has(name) {
		return
	}
	rows := kind(rng)
	r := rows[rng.IntN(len(rows))]
	r.Topic, r.Partition = l.Names.Commands(), rng.Int32N(l.P)
	if rng.IntN(3) == 0 {
		r.Topic = l.Names.Receipts()
	}
	l.Note("%s: %d bytes and %d headers on %s/%d", name, len(r.Key)+len(r.Value), len(r.Headers), r.Topic, r.Partition)
	l.struck(name)
	l.judgedAlone(string(r.Key))
	l.Produce(&r)
}

func hostileRecords(*rand.Rand) []kgo.Record {
	key, good := []byte("hostile"), []byte(`{"op":"register","delay":"24h"}`)
	forged := func(origin, id, at string) []kgo.RecordHeader {
		return []kgo.RecordHeader{
			{Key: "wcx-topic-id", Value: []byte(id)},
			{Key: "wcx-origin", Value: []byte(origin)},
			{Key: "wcx-append", Value: []byte(at)},
		}
	}
	return []kgo.Record{
		{Value: good},
		{Key: []byte{}, Value: good},
		{Key: key},
		{Key: key, Value: []byte{}},
		{},
		{Key: key, Value: []byte("\xff\xfe\x00")},
		{Key: key, Value: good[:12]},
		{Key: key, Value: []byte(`[[[[]]]]`)},
		{Key: key, Value: []byte(`{"op":"explode"}`)},
		{Key: topics.KeyProgress, Value: good},
		{Key: []byte{0xff, 0, 0x80}, Value: good},
		{Key: key, Value: []byte(`{"op":"register","recurrence":"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}`)},
		{
			Key:   key,
			Value: []byte(`{"op":"register","recurrence":"FREQ=SECONDLY;COUNT=1000000000;BYMONTH=2;BYMONTHDAY=30"}`),
		},
		{Key: key, Value: good, Headers: forged("1/999999", "AAAAAAAAAAAAAAAAAAAAAA", "0")},
		{Key: key, Value: good, Headers: forged("77/1", "AAAAAAAAAAAAAAAAAAAAAA", "0")},
		{Key: key, Value: good, Headers: forged("-1/-1", "x", "y")},
	}
}

func giantRecords(rng *rand.Rand) []kgo.Record {
	key, good, n := []byte("giant"), []byte(`{"op":"register","delay":"24h"}`), 1+rng.IntN(900_000)
	many := make([]kgo.RecordHeader, rng.IntN(10_000))
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprint("h", i), Value: []byte("v")}
	}
	return []kgo.Record{
		{Key: key, Value: []byte(strings.Repeat("[", min(n, 100_000)))},
		{Key: []byte(strings.Repeat("k", min(n, 70_000))), Value: good},
		{Key: key, Value: []byte(`{"op":"register","delay":"1h","payload":"` + strings.Repeat("x", n) + `"}`)},
		{Key: key, Value: good, Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, n)}}},
		{Key: key, Value: good, Headers: many},
	}
}
