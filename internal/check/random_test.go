package check_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// TestRandomLives sends random commands for a few triggers, in any order, to right and wrong
// partitions, with crashes. Engine and model must agree. WATERCLOCK_TEST_SEED is the first seed,
// WATERCLOCK_TEST_SEEDS the number of seeds.
func TestRandomLives(t *testing.T) {
	seed, n := uint64(0), 2
	if v, err := strconv.ParseUint(os.Getenv("WATERCLOCK_TEST_SEED"), 10, 64); err == nil {
		seed, n = v, 1
	}
	if v, err := strconv.Atoi(os.Getenv("WATERCLOCK_TEST_SEEDS")); err == nil {
		n = v
	}
	if testing.Short() {
		n = 1
	}
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomLives(t, seed+i) })
		})
	}
}

// nights are nights in which clocks change.
var nights = []time.Time{
	time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC),    // New York, forward
	time.Date(2026, 10, 31, 22, 0, 0, 0, time.UTC), // New York, back
	time.Date(2026, 10, 24, 22, 0, 0, 0, time.UTC), // Europe, back
	time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC),  // Europe, forward
}

func randomLives(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	time.Sleep(time.Until(nights[seed%uint64(len(nights))]))
	w := sim.New(t, sim.Options{Seed: seed})
	w.Start("a")
	w.AwaitOwners()
	for range 150 {
		randomStep(w, rng)
		switch n := rng.IntN(40); {
		case n == 0:
			w.Kill("a")
			time.Sleep(time.Duration(rng.IntN(20)) * time.Minute)
			w.Start("a")
			w.AwaitOwners()
		case n < 4:
			time.Sleep(time.Duration(rng.IntN(30)) * time.Minute)
		default:
			time.Sleep(time.Duration(rng.IntN(30_000)) * time.Millisecond)
		}
	}
	time.Sleep(3 * time.Hour)
	r := w.Verify()
	for i := range r.Violations {
		v := &r.Violations[i]
		t.Error(v.String())
		for _, line := range v.Timeline {
			t.Log("    ", line)
		}
	}
	t.Logf("%d records, %d triggers, %d fired, skipped %v, trusted %v", r.Records, r.Triggers, r.Fired, r.Skipped,
		r.Trusted)
}

// randomStep sends a command or a receipt about one of eight triggers.
func randomStep(w *sim.World, rng *rand.Rand) {
	n := rng.IntN(8)
	key := fmt.Sprint("k", n)
	if rng.IntN(6) == 0 {
		randomReceipt(w, rng)
		return
	}
	home := topics.Partition([]byte(key), w.P)
	if rng.IntN(12) == 0 {
		home = 1 - home
	}
	w.SendTo(home, key, randomCommand(rng, n))
}

func pick(rng *rand.Rand, all ...string) string { return all[rng.IntN(len(all))] }

// rules are chosen for any trigger, so one rule follows another in the same life.
var rules = []string{
	`"every:7m"`, `"every:90s","jitter":"30s"`, `"FREQ=MINUTELY;INTERVAL=5","count":5`,
	`"FREQ=HOURLY;BYMINUTE=0,20,40","timezone":"Asia/Kathmandu"`,
	`"cron:*/6 * * * *","timezone":"America/New_York"`, `"cron:10,40 1-3 * * *","timezone":"America/New_York"`,
	`"FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=15,45","timezone":"Europe/Berlin","dst":{"overlap":"both"}`,
	`"FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=30","timezone":"Europe/Berlin"`,
}

func randomCommand(rng *rand.Rand, n int) string {
	wait := fmt.Sprintf("%ds", 1+rng.IntN(1200))
	ladder := `,"escalation":[{"channel":"r-x"},{"after":"4m","channel":"default"},{"after":"90s","channel":"r-x"}]`
	extra := pick(rng, "", "", ladder, ladder+`,"user_id":"u"`, ladder+`,"expires_after":"5m"`, `,"user_id":"u"`, `,"channel":"r-x"`, `,"channel":"r-x","user_id":"u"`,
		`,"misfire":"skip"`, `,"misfire":"fire_all"`, `,"expires_after":"10m"`, `,"payload":{"n":1}`,
		`,"idempotency_key":"i`+pick(rng, "1", "2", "3")+`"`, `,"if_absent":true`, `,"if_revision":2`)
	zone := pick(rng, "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
	switch rng.IntN(23) {
	case 20:
		return `{"op":"skip"}`
	case 21:
		return `{"op":"rezone","timezone":"` + zone + `"}`
	case 22:
		return `{"op":"skip","occurrence":"2026-11-01T` + pick(rng, "01:40", "02:10", "01:00", "02:15") + `"}`
	case 0, 1, 2:
		return `{"op":"register","delay":"` + wait + `"` + extra + `}`
	case 3:
		return `{"op":"register","delay":"5m"` + extra + `}`
	case 4:
		return `{"op":"register","fire_at":"2026-11-` + pick(rng, "01", "02") + `T` +
			pick(rng, "02:30", "01:30", "03:15") + `","timezone":"` + zone + `"` + extra + `}`
	case 5, 6, 7:
		return `{"op":"register","recurrence":` + pick(rng, rules...) + extra + `}`
	case 8, 9:
		return `{"op":"cancel"}`
	case 10:
		return `{"op":"reschedule","delay":"` + wait + `"}`
	case 11:
		return `{"op":"run_now"}`
	case 12, 13:
		return `{"op":"snooze","for":"` + wait + `"}`
	case 14:
		return `{"op":"pause"}`
	case 15:
		return `{"op":"pause"}`
	case 16:
		return `{"op":"resume"}`
	case 17:
		return `{"op":"run_now"}`
	case 18:
		return `{"op":"ack"}`
	}
	return pick(rng, `{"op":"erase"}`, `{"op":"resume"}`, `{"op":"register"}`, `{"op":"wait"}`)
}

// randomReceipt answers one of the newest due events of the channel that has receipts, correctly
// or not.
func randomReceipt(w *sim.World, rng *rand.Rand) {
	all := w.Dump(w.Names.Due("r-x"))
	if len(all) == 0 {
		return
	}
	d := all[len(all)-1-rng.IntN(min(3, len(all)))]
	key := pipelinetest.Header(d, "ce_subject")
	outcome := pick(rng, `"delivered"`, `"accepted"`, `"failed"`, `"retry"`, `"suppressed"`,
		`"postponed","retry_after":"2m"`, `"postponed","retry_after":"3m","code":"quiet_hours"`)
	w.Receipt(key, fmt.Sprintf(`{"due_id":%q,"attempt":%s,"outcome":%s}`, pipelinetest.Header(d, "ce_id"),
		pipelinetest.Header(d, "ce_wcattempt"), outcome))
}
