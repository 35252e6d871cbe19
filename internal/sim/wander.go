package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// The triggers below get commands in an order in which users give them: a series is moved to another zone, skipped
// ahead, edited, patched, while its calendars change. They have random numbers of their own, so that a seed keeps the
// commands that it had before.

// wanderers are series of which one thing changes often: the zone, the calendar, or the other time fields.
// More than one of them at a time leaves open what is decided.
var wanderers = []struct {
	rule, on, calendar string
	does               string // a letter each: z rezone, e edit, s skip, p patch
}{
	{"FREQ=DAILY;BYHOUR=9,15,21;BYMINUTE=0;BYSECOND=0", "next_business_day", "holidays", "z"},
	{"FREQ=WEEKLY;BYDAY=MO,WE,FR,SA,SU;BYHOUR=7;BYMINUTE=30;BYSECOND=0", "previous_business_day", "holidays", "z"},
	{"FREQ=WEEKLY;BYDAY=TU,WE,FR,SA,SU;BYHOUR=8;BYMINUTE=15;BYSECOND=0", "previous_business_day", movingCalendar, ""},
	{"FREQ=DAILY;BYHOUR=0,6,12,18;BYMINUTE=45;BYSECOND=0", "skip", movingCalendar, ""},
	{"FREQ=DAILY;BYHOUR=3,10,17;BYMINUTE=20;BYSECOND=0", "", "", "es"},
	{"cron:*/20 * * * *", "", "", "p"},
}

var wanderedZones = []string{
	"Europe/Berlin", "America/New_York", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Apia", "Asia/Kathmandu", "UTC",
}

// wanderer is what its user knows of a series.
type wanderer struct {
	zone, misfire, start    string
	include, exclude, extra string
}

// wandering is the state of these commands in a life.
type wandering struct {
	series   [6]wanderer
	revision map[string]int // as the user of a one-shot counts
	snoozed  map[string]time.Time
	redriven map[string]bool // keys and names
	days     *rand.Rand
}

func newWandering(seed uint64) *wandering {
	return &wandering{
		revision: map[string]int{}, snoozed: map[string]time.Time{}, redriven: map[string]bool{},
		days: rand.New(rand.NewPCG(seed, 26)),
	}
}

// movingCalendar is changed while triggers name it.
const movingCalendar = "moving"

// moveCalendar puts other dates around now into the calendar, or removes it.
func (l *life) moveCalendar() {
	rng := l.wander.days
	if rng.IntN(8) == 0 {
		l.Note("calendar %s is removed", movingCalendar)
		l.Produce(&kgo.Record{Topic: l.Names.Control(), Key: []byte("calendar/" + movingCalendar)})
		return
	}
	dates := []string{}
	for day := -4; day <= 10; day++ {
		if rng.IntN(3) == 0 {
			dates = append(dates, time.Now().AddDate(0, 0, day).Format(time.DateOnly))
		}
	}
	l.Note("calendar %s: %v", movingCalendar, dates)
	l.Setting(topics.EncodeCalendar(topics.Calendar{Name: movingCalendar, Dates: dates}))
}

// roam sends the commands of a visit.
func (l *life) roam(rng *rand.Rand, span time.Duration) {
	var dates sync.WaitGroup
	dates.Go(func() { l.moveDates(rand.New(rand.NewPCG(rng.Uint64(), 29)), span) })
	for begin := time.Now(); time.Since(begin) < span; {
		switch n := rng.IntN(20); {
		case n < 11:
			if l.plan.Series == Wandering {
				l.wanderOn(rng)
			}
		case n < 16:
			l.conditional(rng)
		case n < 19:
			l.odd(rng)
		case l.plan.Series == Wandering:
			l.moveCalendar()
		}
		time.Sleep(time.Duration(100+rng.IntN(900)) * time.Millisecond)
	}
	dates.Wait()
}

// wanderOn sends a command for one of the wanderers.
func (l *life) wanderOn(rng *rand.Rand) {
	n := rng.IntN(len(wanderers))
	w, key := &l.wander.series[n], fmt.Sprint("w", n)
	var headers []kgo.RecordHeader
	var body string
	does := func(c string) bool { return strings.Contains(wanderers[n].does, c) }
	switch op := rng.IntN(16); {
	case w.zone == "":
		l.edit(rng, w, does("e"))
		body = l.registerWanderer(n)
	case op < 5 && does("e"):
		l.edit(rng, w, does("e"))
		body = l.registerWanderer(n)
	case op < 8 && does("p"):
		w.misfire = pick(rng, "skip", "fire_once", "fire_all")
		body, headers = l.registerWanderer(n), []kgo.RecordHeader{{Key: topics.HeaderPatch}}
	case op < 8 && does("z"):
		w.zone = wanderedZones[rng.IntN(len(wanderedZones))]
		body = `{"op":"rezone","timezone":"` + w.zone + `"}`
	case op < 11 && does("s"):
		body = `{"op":"skip"}`
		if rng.IntN(3) == 0 {
			body = `{"op":"skip","occurrence":"` + time.Now().AddDate(0, 0, 1+rng.IntN(4)).Format(time.DateOnly) + `"}`
		}
	case op < 13:
		body = pick(rng, `{"op":"run_now"}`, `{"op":"snooze","for":"9s"}`)
	default:
		body = pick(rng, `{"op":"pause"}`, `{"op":"resume"}`, `{"op":"resume"}`)
	}
	l.sendFree(l.astray(rng, key), key, body, headers...)
}

// edit changes some of the time fields of a wanderer, and not its rule.
func (l *life) edit(rng *rand.Rand, w *wanderer, edits bool) {
	if w.zone == "" {
		w.zone = wanderedZones[rng.IntN(len(wanderedZones))]
	}
	here := time.Now().UTC()
	if loc, err := time.LoadLocation(w.zone); err == nil {
		here = time.Now().In(loc)
	}
	const second = "2006-01-02T15:04:05"
	w.misfire = pick(rng, "fire_all", "fire_all", "fire_once", "skip")
	if rng.IntN(2) == 0 {
		w.start = here.AddDate(0, 0, -rng.IntN(3)).Format(time.DateOnly) + pick(rng, "T00:00", "T03:00", "T12:00")
	}
	if w.include = ""; edits && rng.IntN(2) == 0 {
		w.include = `"` + here.Add(time.Duration(5+rng.IntN(40))*time.Second).Format(second) + `"`
	}
	if w.exclude = ""; edits && rng.IntN(3) == 0 {
		w.exclude = `"` + here.AddDate(0, 0, rng.IntN(4)).Format(time.DateOnly) + `"`
	}
	w.extra = pick(rng, "", "", "", `,"payload":{"n":1}`, `,"user_id":"u"`)
}

func (l *life) registerWanderer(n int) string {
	w, rule := &l.wander.series[n], wanderers[n]
	b := fmt.Sprintf(`{"op":"register","recurrence":%q,"timezone":%q,"misfire":%q%s`,
		rule.rule, w.zone, w.misfire, w.extra)
	if w.start != "" {
		b += `,"start":"` + w.start + `"`
	}
	if w.include != "" {
		b += `,"include":[` + w.include + `]`
	}
	if w.exclude != "" {
		b += `,"exclude":[` + w.exclude + `]`
	}
	if rule.calendar != "" {
		b += fmt.Sprintf(`,"calendars":{"names":[%q],"on":%q}`, rule.calendar, rule.on)
	}
	return b + "}"
}

// moveDates registers dates in Tokyo, more than the engine remembers by name, and when all have fired the same dates
// and later ones far in the west. They have fired, so only the later ones may.
func (l *life) moveDates(rng *rand.Rand, span time.Duration) {
	const dates, rest = 20, 4
	if span < (dates+rest+2)*time.Second {
		return
	}
	key := fmt.Sprint("d", l.dated)
	l.dated++
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		l.T.Fatalf("zone: %v", err)
	}
	first := time.Now().In(tokyo).Add(2 * time.Second).Truncate(time.Second)
	list := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, `"`+first.Add(time.Duration(i)*time.Second).Format("2006-01-02T15:04:05")+`"`)
		}
		return strings.Join(out, ",")
	}
	send := func(n int, zone string) {
		l.SendFree(l.Home(key), key, fmt.Sprintf(`{"op":"register","include":[%s],"timezone":%q,"misfire":"fire_all"}`,
			list(n), zone))
	}
	send(dates, "Asia/Tokyo")
	time.Sleep((dates + rest) * time.Second)
	send(dates+1+rng.IntN(4), pick(rng, "America/Los_Angeles", "America/New_York", "Europe/Berlin"))
}

// conditional sends a command for a one-shot whose user knows the revision, or knows an old one.
func (l *life) conditional(rng *rand.Rand) {
	const oneShots = 5
	w, key := l.wander, fmt.Sprint("i", rng.IntN(oneShots))
	rev := w.revision[key]
	var headers []kgo.RecordHeader
	var body string
	raises := true
	wait := time.Duration(1+rng.IntN(8)) * time.Second
	if rng.IntN(6) == 0 {
		wait += 3 * time.Hour // it is late when nodes run again
	}
	switch op := rng.IntN(12); {
	case op < 3 || rev == 0:
		body = fmt.Sprintf(`{"op":"register","delay":"%v","user_id":"u","misfire":%q,"payload":%d}`, wait,
			pick(rng, "skip", "fire_once"), rng.IntN(1000))
		delete(w.snoozed, key)
	case op < 7:
		at := time.Now().Add(wait).Truncate(time.Millisecond)
		body = fmt.Sprintf(`{"op":"snooze","until":%q}`, at.UTC().Format(time.RFC3339Nano))
		w.snoozed[key] = at
	case op < 9 && !w.snoozed[key].IsZero(): // the patch of a gateway that saw the snooze
		body = fmt.Sprintf(`{"op":"register","fire_at":%q,"user_id":"u","misfire":"skip","payload":%d}`,
			w.snoozed[key].UTC().Format(time.RFC3339Nano), rng.IntN(1000))
		headers = []kgo.RecordHeader{{Key: topics.HeaderPatch}}
	default:
		verbs := []string{"cancel", "pause", "resume", "reschedule", "run_now", "ack", "erase", "skip"}
		op := verbs[min(rng.IntN(len(verbs)+4), len(verbs)-1)]
		raises = slices.Contains([]string{"cancel", "pause", "reschedule"}, op)
		if body = `{"op":"` + op + `"}`; op == "reschedule" {
			body = `{"op":"reschedule","delay":"5s"}`
		}
	}
	if rng.IntN(2) == 0 && rev > 0 {
		body = strings.TrimSuffix(body, "}") + fmt.Sprintf(`,"if_revision":%d}`, max(1, rev-rng.IntN(2)*rng.IntN(3)))
	}
	if raises {
		w.revision[key]++
	}
	l.sendFree(l.Home(key), key, body, headers...)
}

// oddNames are occurrences that no plan makes. Anybody may redrive them.
var oddNames = []string{"x", "2026", "2026-13-99", "no name of a plan", "snz-1", "~", "2026-03-04T09:00:00~0-x", "+f1"}

// odd redrives an occurrence of a name that no plan makes, or registers a series for its key.
func (l *life) odd(rng *rand.Rand) {
	key := fmt.Sprint("o", rng.IntN(3))
	if name := oddNames[rng.IntN(len(oddNames))]; rng.IntN(3) > 0 && !l.wander.redriven[key+name] {
		l.wander.redriven[key+name] = true
		l.SendFree(l.Home(key), key, fmt.Sprintf(
			`{"op":"redrive","channel":"default","due_id":"%s@%s#0","attempt":1,"scheduled_at":%q}`, key,
			name, l.begin.Add(-time.Hour).UTC().Format(time.RFC3339)))
		return
	}
	l.SendFree(l.Home(key), key, pick(rng,
		`{"op":"register","recurrence":"cron:30 */3 * * *","timezone":"Europe/Berlin"}`, `{"op":"cancel"}`, `{"op":"register","delay":"3s"}`))
}

// sendFree is SendFree with headers.
func (l *life) sendFree(partition int32, key, body string, headers ...kgo.RecordHeader) {
	l.judgedAlone(key)
	l.Produce(&kgo.Record{
		Topic: l.Names.Commands(), Partition: partition, Key: []byte(key), Value: []byte(body), Headers: headers,
	})
}
