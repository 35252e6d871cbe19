package trigger

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// script turns bytes into inputs for a world: what the model test draws at
// random and the fuzzer searches. Every byte string is a script.
type script struct {
	b     []byte
	w     *world
	fires map[Key][]Fire // what receipts may be about
	dead  map[Key][]Fire // what may be redriven
	zones bool           // let rezone and edits of zones in
}

// run plays the script to its end.
func (p *script) run() {
	p.fires, p.dead = map[Key][]Fire{}, map[Key][]Fire{}
	observe := p.w.observe
	p.w.observe = func(at Instant, s *State, out Outcome) {
		for _, f := range out.Fires {
			p.fires[f.Key] = append(p.fires[f.Key], f)
		}
		for _, d := range out.Dead {
			p.dead[d.Fire.Key] = append(p.dead[d.Fire.Key], carried(d.Fire))
		}
		observe(at, s, out)
	}
	for len(p.b) > 0 && !p.w.t.Failed() {
		p.step()
	}
}

// pick is the next byte, below n; 0 when the script has ended.
func (p *script) pick(n int) int {
	if len(p.b) == 0 {
		return 0
	}
	c := p.b[0]
	p.b = p.b[1:]
	return int(c) % n
}

func of[T any](p *script, choices ...T) T { return choices[p.pick(len(choices))] }

func (p *script) step() {
	switch p.pick(8) {
	case 0, 1:
		p.w.advance(p.w.now.Add(p.span()))
	case 2:
		p.w.outage(p.w.now.Add(p.span()))
	case 3:
		p.register()
	case 4, 5:
		p.change()
	case 6:
		p.receipt()
	default:
		switch n := p.pick(4); {
		case n == 1 && p.zones:
			p.w.retime(of(p, zones2023c(p.w.t), calendar.Embedded()))
			if p.pick(2) == 0 {
				p.w.replan("tzdata")
			}
			return
		case n == 2 && p.zones:
			p.closeDays()
			return
		}
		took := p.pick(6)
		p.w.refuse, p.w.silent = took == 1 || took == 2, took == 3
	}
}

func (p *script) closeDays() {
	days := []string{}
	for chosen, day := p.pick(64), 7; day < 13; day++ {
		if chosen&1 == 1 {
			days = append(days, fmt.Sprintf("2026-03-%02d", day))
		}
		chosen >>= 1
	}
	p.w.close(days)
}

func (p *script) span() time.Duration {
	return of(p, 0, time.Millisecond, time.Second, 10*time.Second, 59*time.Second, 61*time.Second, 10*time.Minute,
		time.Hour,
		70*time.Minute, 6*time.Hour, 25*time.Hour, 49*time.Hour)
}

func (p *script) key() Key { return of[Key](p, "k", "k", "k", "t/other") }

// origin is mostly direct; else a command forwarded late, or almost in time.
func (p *script) origin() Origin {
	from := p.w.origin()
	switch p.pick(8) {
	case 1:
		from = Origin{Partition: 1, Offset: from.Offset + 1000, Append: from.Append - 500, Forwarded: true}
	case 2:
		from = Origin{Partition: 1, Offset: from.Offset + 1000, Append: from.Append - 90_000, Forwarded: true}
	case 3:
		from.Append -= 30
	}
	return from
}

func (p *script) register() {
	s := &Spec{
		When: p.when(), Channel: of(p, "default", "push", "webhook", "bulk"), UserID: of(p, "", "u"),
		Payload: []byte(of(p, "", "a", "b")), Priority: of(p, Normal, High, Low),
		Misfire: of(p, FireOnce, FireAll, SkipMissed),
		Expires: of(p, 0, 0, 0, time.Minute, time.Hour), Jitter: of(p, 0, 0, time.Minute, 4*time.Minute),
	}
	if s.Channel == "webhook" {
		s.Callback = &Callback{URL: "https://example.com", Retry: of(p, nil,
			[]time.Duration{time.Second, 2 * time.Second})}
	}
	if s.Channel == "push" && p.pick(3) > 0 {
		s.Escalation = p.escalation()
	}
	c := &Command{Op: OpRegister, Key: p.key(), From: p.origin(), Spec: s}
	switch n := p.pick(30); {
	case n < 20 && n > 0:
		c.IdempotencyKey = fmt.Sprint("i", n)
	case n > 24:
		c.Patch = true
		if old := p.w.states[c.Key]; n > 26 && old != nil {
			s.When = old.Spec.When
		}
	}
	c.Hash = contentOf(s)
	p.conditions(c)
	p.w.command(c)
}

func (p *script) escalation() []Step {
	all := []Step{
		{Channel: "push"},
		{Channel: of(p, "sms", "default", "push"), After: of(p, time.Second, time.Minute, 2*time.Hour)},
		{Channel: of(p, "email", "default"), After: of(p, time.Second, 10*time.Minute)},
	}
	return all[:len(all)-p.pick(2)]
}

func (p *script) conditions(c *Command) {
	switch s := p.w.states[c.Key]; p.pick(12) {
	case 1:
		c.IfAbsent = c.Op == OpRegister
	case 2:
		c.IfRevision = 1
	case 3:
		if s != nil {
			c.IfRevision = s.Revision
		}
	}
}

var scriptStart = instant("2026-03-07T22:00:00Z") // the night clocks go forward in New York

func (p *script) when() When {
	day := of(p, "2026-03-07", "2026-03-08", "2026-03-09", "2026-03-29")
	clock := of(p, "T02:30:00", "T12:00:00", "T23:30:00")
	switch p.pick(6) {
	case 0:
		d := p.span()
		return When{Kind: WhenDelay, DelayText: d.String(), Delay: d}
	case 1:
		return When{Kind: WhenInstant, FireAt: instant(day + clock + "Z")}
	case 2:
		return When{Kind: WhenLocal, Local: day + clock, Zone: p.zone(), DST: DST{Overlap: of(p, "", "second")}}
	}
	w := When{
		Kind: WhenRecurrence, Zone: p.zone(), Recurrence: of(p, "every:10m", "every:1h", "FREQ=DAILY",
			"FREQ=DAILY;BYHOUR=1,2,3",
			"cron:30 1-3 * * *", "cron:*/30 * * * *", "FREQ=HOURLY", "FREQ=WEEKLY;BYDAY=SU,MO", ""),
		Start: of(p, "", "", day+clock, day+clock+"Z"), Count: of(p, 0, 0, 0, 1, 3, 20),
	}
	if w.Recurrence == "" {
		w.Include, w.Start, w.Count = []string{day + clock, "2026-03-10T09:00:00"}, "", 0
	}
	if p.pick(5) == 1 {
		w.Exclude = []string{"2026-03-09"}
	}
	if on := of(p, "", "", "", calendar.OnSkip, calendar.OnNext, calendar.OnPrevious); on != "" {
		w.Calendars = &Calendars{Names: []string{"closed"}, On: on}
	}
	return w
}

func (p *script) zone() string {
	if !p.zones {
		return "America/New_York"
	}
	return of(p, "America/New_York", "Europe/Berlin", "Asia/Tokyo", "Pacific/Pago_Pago", "Pacific/Kiritimati",
		"Australia/Lord_Howe", "Asia/Almaty", "UTC", "Mars/Olympus")
}

func (p *script) change() {
	c := &Command{
		Op: of(p, OpCancel, OpReschedule, OpSnooze, OpSnooze, OpSkip, OpSkip, OpPause, OpResume, OpRunNow, OpRezone,
			OpAck, OpErase, OpRedrive),
		Key: p.key(), From: p.origin(),
	}
	switch c.Op {
	case OpPause, OpResume:
		c.Note = "holiday"
	case OpReschedule:
		c.Spec = &Spec{When: p.when(), Priority: Normal}
	case OpSnooze:
		if c.For = p.span(); p.pick(4) == 1 {
			c.For, c.UntilLocal = 0, "2026-03-08T02:30:00"
		}
	case OpSkip:
		c.Occurrence = of(p, "", "", "2026-03-08", "2026-03-09T12:00:00", "2026-03-09T01:00:00Z", "nonsense")
	case OpRezone:
		c.Zone = p.zone()
	case OpAck:
		if fires := p.fires[c.Key]; len(fires) > 0 && p.pick(2) == 1 {
			c.Occurrence = fires[len(fires)-1].Occurrence
		}
	case OpRedrive:
		c.Dead = p.deadLetter(c.Key)
	}
	p.conditions(c)
	p.w.command(c)
}

// deadLetter is one of a trigger's, or of one that we never knew.
func (p *script) deadLetter(k Key) *Fire {
	if dead := p.dead[k]; len(dead) > 0 {
		return &dead[max(0, len(dead)-1-p.pick(3))]
	}
	at := p.w.now - 1000
	return &Fire{
		Key: k, Occurrence: at.String(), Nominal: at, Attempt: 6, Revision: 3, Channel: "push",
		Spec: &Spec{Channel: "push", Priority: Normal, Payload: []byte("old")},
	}
}

// carried is a dead letter as a command brings it back.
func carried(f Fire) Fire {
	spec := *f.Spec
	spec.When, spec.Jitter, spec.Misfire, spec.FollowUser, spec.Expires = When{}, 0, 0, false, 0
	spec.Channel, spec.Escalation = f.Channel, nil
	if f.Expires != 0 {
		spec.Expires = f.Expires.Sub(f.Nominal)
	}
	f.Spec, f.Fired = &spec, 0
	return f
}

// receipt is about one of the last due events of the trigger, or about none.
func (p *script) receipt() {
	k := p.key()
	r := &Receipt{
		Occurrence: "2026-03-01T00:00:00.000Z", Attempt: 1, Postponed: -1, At: p.w.now,
		Outcome: of(p, ReceiptDelivered, ReceiptAccepted, ReceiptFailed, ReceiptRetry, ReceiptRetry, ReceiptPostponed,
			ReceiptSuppressed),
	}
	if fires := p.fires[k]; len(fires) > 0 {
		f := fires[max(0, len(fires)-1-p.pick(3))]
		r.Occurrence, r.Step, r.Attempt = f.Occurrence, f.Step, f.Attempt
		if p.pick(3) == 1 {
			r.Postponed = f.Postponed
		}
		if p.pick(6) == 1 {
			r.Code = of(p, CodeQuietHours, CodePreferencesAway)
		}
	}
	r.Attempt = max(0, r.Attempt-of(p, 0, 0, 0, 1))
	r.RetryAfter = of(p, 0, 0, time.Second, 10*time.Minute)
	p.w.receive(k, r)
}
